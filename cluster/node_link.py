"""The gateway's link to one node: it starts a player there, asks for rounds, sends weights, and starts it again."""

import asyncio
import itertools
import math
import pickle
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import ray
import torch
from ray import ObjectRef
from ray.exceptions import ActorUnavailableError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.cluster_actors import Gateway
from cluster.nodes import one_line
from options.rules import UsageError, counted
from processes.messages import Kind
from processes.printed import is_new
from workers.randomness import stream_of

WEIGHTS_SECONDS = 0.1  # between two copies of the weights for the nodes, at least
START_SECONDS = 120.0  # in which a node has to prepare its games
SILENCE_SECONDS = 90.0  # after which an actor that answers no call is replaced; docs/cluster.md lets Ray wait as long
SILENT_SECONDS = 3.0  # after which nobody waits for the rounds of an actor
PING_SECONDS = 1.0
REFUSED_SECONDS = 30.0  # after which a node that could not play is checked again
FIRST_BACK_OFF, LONGEST_BACK_OFF = 1.0, 30.0  # seconds between two starts
ROUNDS_PER_WORKER = 2  # that may be asked for: while one round travels, the worker plays the next one
LONGEST_PAUSE = 5.0  # seconds after weights that took long to send
MOST_CALLS = 10_000  # that an actor accepts at the same time

Answer = TypeVar("Answer")
Tell = Callable[[Kind, Any], None]
Weights = tuple[int, "ObjectRef[Any]", int]  # their version, where they are in Ray's memory, and their bytes


class Players:
    """What the players of all nodes have in common, and the newest weights for them."""

    def __init__(self, gateway: Gateway, actor_class: Any) -> None:
        self._gateway = gateway
        self._actor_class = actor_class
        # Unpickled on nodes only once they have found their code.
        self._pickled = pickle.dumps((gateway.setup, gateway.played_code))
        self._numbers = itertools.count()
        self._flat = torch.zeros(gateway.weights.weight_count)
        self._newest: Weights | None = None
        self._read_at = -math.inf

    def start(self, node_id: str, checkout: str, workers: int) -> Any:
        """Start the actor of a player, which has games of its own. It takes no CPU of Ray's, as its workers do not."""
        setup = self._gateway.setup
        place = (setup.config.seed, setup.resume_count, self._gateway.restart_index, next(self._numbers))
        seed = int(stream_of("node", *place).generate_state(1)[0] >> 1)
        return self._actor_class.options(
            num_cpus=0,
            max_restarts=0,
            max_concurrency=MOST_CALLS,
            enable_task_events=False,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        ).remote(checkout, "cluster.node_player", "NodePlayer", self._pickled, seed, workers)

    def newest_weights(self) -> Weights:
        """One copy for all nodes. They are read once in WEIGHTS_SECONDS."""
        now = time.monotonic()
        if self._newest is None or now - self._read_at >= WEIGHTS_SECONDS:
            self._read_at = now
            before = -1 if self._newest is None else self._newest[0]
            version = self._gateway.weights.copy_newer(before, self._flat)
            if version > before:
                vector = self._flat.bfloat16().view(torch.int16) if self._gateway.bfloat16 else self._flat
                self._newest = version, ray.put(vector.numpy()), vector.numel() * vector.element_size()
        assert self._newest is not None
        return self._newest


class NodeLink:
    """Keeps a player running on one node, as long as the node is in the cluster."""

    def __init__(self, name: str, workers: int, start: Callable[[], Any], players: Players, tell: Tell) -> None:
        """`start` starts an actor there. `tell` gets messages for the learner, and rounds with the node's name."""
        self.name = name
        self.workers = workers
        self.playing = False
        self.asked_at = 0.0
        self.outstanding = 0  # rounds that were asked for and have not arrived
        self.counts = Counter(restarts=0, received_bytes=0, sent_bytes=0)  # restarts are of the player and its workers
        self._told: Counter[str] = Counter()
        self._start_actor = start
        self._players = players
        self._tell = tell
        self._tasks = asyncio.TaskGroup()  # of the player: they end together when one of them finds that it is lost
        self._version = -1  # of the weights that the player has
        self._answered_at = 0.0
        self._round_trip_ms: float | None = None
        self._publish_ms = 0.0
        self._failures = 0  # in a row, without a round between them
        self._said: set[str] = set()  # since the latest round: each new player of a broken node says the same

    @property
    def is_silent(self) -> bool:
        """Whether it does not answer, so that the rounds that it owes must not keep others from playing."""
        return self.playing and time.monotonic() - self._answered_at > SILENT_SECONDS

    @property
    def capacity(self) -> int:
        return ROUNDS_PER_WORKER * self.workers if self.playing else 0

    def figures(self) -> dict[str, Any]:
        """For the learner: how it is, how much the counts have grown since the last call, and the newest times."""
        grown = {name: count - self._told[name] for name, count in self.counts.items()}
        self._told = self.counts.copy()
        capacity = 0 if self.is_silent else self.capacity
        state = {"node": self.name, "workers": self.workers, "capacity": capacity}
        return {**state, **grown, "round_trip_ms": self._round_trip_ms, "publish_ms": self._publish_ms}

    async def serve(self) -> None:
        """Run until cancelled, which happens when the node has left the cluster."""
        while True:
            actor = self._start_actor()
            try:
                await self._play(actor)
            except* UsageError as group:
                seconds = REFUSED_SECONDS
                self._notice(f"node {self.name} does not play: {one_line(group.exceptions[0])}")
            except* (RayError, TimeoutError) as group:
                self.counts["restarts"] += 1
                seconds = min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2 ** min(self._failures, 10))
                self._failures += 1
                self._notice(f"node {self.name} is started again: {_reason(group.exceptions[0])}")
            finally:
                with suppress(RayError):  # it has ended, or its node has
                    ray.kill(actor)
            await asyncio.sleep(seconds)

    def request(self) -> None:
        """Ask the player for one more round, which it plays with the newest weights that it has then."""
        self.asked_at = time.monotonic()
        self.outstanding += 1
        self._start(self._fetch())

    async def _play(self, actor: Any) -> None:
        """Get rounds of a player until it is lost. The error that shows it is raised."""
        self._actor = actor
        await self._load_weights(*self._players.newest_weights(), START_SECONDS)  # the first ones make the player
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self.playing, self._answered_at = True, time.monotonic()
                self._start(self._ping())
                self._start(self._send_weights())
                self._tell(Kind.NODE_FIGURES, [self.figures()])
                self._tell(Kind.NOTICE, f"node {self.name} plays with {counted(self.workers, 'worker')}")
        finally:
            self._tell(Kind.NODE_FIGURES, [self.figures()])

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.create_task(self._until_lost(work))

    async def _until_lost(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except BaseException:
            self.playing = False  # at once: nobody may ask this player for a round any more
            raise

    async def _fetch(self) -> None:
        try:
            unrolls: list[bytes] = await self._actor.call.remote("next_round")
        except ActorUnavailableError:
            return  # the network was cut and this round is lost; `_ping` finds out whether the player is still there
        finally:
            self.outstanding -= 1
        self._failures = 0
        self._said.clear()
        self.counts["received_bytes"] += sum(map(len, unrolls))
        self._tell(Kind.ROUND, (self.name, unrolls))

    async def _send_weights(self) -> None:
        """Send the newest weights while rounds are played, and leave a slow network as much time for unrolls."""
        while True:
            pause = WEIGHTS_SECONDS
            if self.outstanding:
                version, weights, size = self._players.newest_weights()
                if version > self._version:
                    await self._load_weights(version, weights, size, SILENCE_SECONDS)
                    pause = max(pause, self._publish_ms / 1000)
            await asyncio.sleep(min(LONGEST_PAUSE, pause))

    async def _load_weights(self, version: int, weights: "ObjectRef[Any]", size: int, seconds: float) -> None:
        begun = time.monotonic()
        await _reached(lambda: self._actor.call.remote("load_weights", version, weights), seconds)
        self._publish_ms = 1000 * (time.monotonic() - begun)
        self.counts["sent_bytes"] += size
        self._version = version

    async def _ping(self) -> None:
        while True:
            begun = time.monotonic()
            figures: dict[str, Any] = await _reached(lambda: self._actor.call.remote("figures"), SILENCE_SECONDS)
            self._answered_at = time.monotonic()
            self._round_trip_ms = 1000 * (self._answered_at - begun)
            self.counts["restarts"] += figures["restarts"]
            for text in figures["notices"]:
                self._notice(f"node {self.name}: {text}")
            await asyncio.sleep(PING_SECONDS)

    def _notice(self, text: str) -> None:
        if is_new(text, self._said):
            self._tell(Kind.NOTICE, text)


async def _reached(call: Callable[[], Awaitable[Answer]], seconds: float) -> Answer:
    """The value of a call that is made again while the network to the actor is cut.

    TimeoutError after so many seconds. (`asyncio.wait_for` of Python 3.11 can lose a cancellation.)
    """
    async with asyncio.timeout(seconds):
        while True:
            try:
                return await call()
            except ActorUnavailableError:
                await asyncio.sleep(PING_SECONDS)


def _reason(error: BaseException) -> str:
    """An error of Ray's in one line."""
    if isinstance(error, TimeoutError):
        return "it did not answer"
    if isinstance(error, RayTaskError):
        return f"its player failed ({one_line(error)})"
    return f"its player was lost ({one_line(error)})"
