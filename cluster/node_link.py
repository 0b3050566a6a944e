"""The gateway's link to one node: it starts the actor there, asks for rounds, sends weights, and starts it again."""

import asyncio
import platform
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import ray
from ray import ObjectRef
from ray.actor import ActorHandle
from ray.exceptions import ActorUnavailableError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.node_actor import NodeActor
from cluster.node_code import ROOT
from cluster.task_errors import first_line, one_line
from processes.printed import KindsOfErrors, kind_of_error

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


class Hub(Protocol):
    """What a link needs from the gateway."""

    spec: bytes
    code: str
    actor_class: Any  # NodeActor as Ray's class: made once, because Ray keeps each one that is made

    def next_number(self) -> tuple[int, int]:
        """The number and the seed of a new player."""

    def newest_weights(self) -> tuple[int, ObjectRef[Any], int]:
        """The version, reference and size in bytes of the newest weights, read once in --weights_interval."""

    def joined(self, link: "NodeLink") -> None: ...

    def left(self, link: "NodeLink") -> None: ...

    def landed(self, link: "NodeLink", content: bytes) -> None: ...

    def notice(self, text: str) -> None: ...


class PlayerLostError(Exception):
    """The player of a node has ended or does not answer; the message says why."""


class NodeLink:
    """Keeps a player running on one node, as long as the node is in the cluster."""

    def __init__(self, hub: Hub, node_id: str, index: int, name: str, seat: int, workers: int) -> None:
        self.index = index  # of all links of the gateway
        self.name = name
        self.seat = seat  # no two nodes have the same one at the same time
        self.workers = workers
        self.number = -1  # of the player
        self.playing = False
        self.asked_at = 0.0
        self.received_bytes = self.sent_bytes = 0
        self.round_trip_ms: float | None = None
        self.publish_ms: float | None = None
        self.outstanding = 0  # rounds that were asked for and have not arrived
        self._hub = hub
        self._node_id = node_id
        self._starts = 0
        self._pool_restarts = 0  # of workers, by earlier players
        self._pool: dict[str, Any] = {"restarts": 0}
        self._tasks = asyncio.TaskGroup()  # of the player: they end together when one of them finds that it is lost
        self._version = -1  # of the weights that were sent last
        self._arrived = -1  # of the newest weights that the node has
        self._is_sending = False  # these weights, and then the pause after them
        self._answered_at = 0.0
        self._failures = 0  # in a row, without a round between them
        self._last_problem = ""
        self._noticed = KindsOfErrors()  # what this node has said since its latest round

    @property
    def is_silent(self) -> bool:
        """Whether it does not answer, so that the rounds that it owes must not keep others from playing."""
        return self.playing and time.monotonic() - self._answered_at > SILENT_SECONDS

    @property
    def capacity(self) -> int:
        return ROUNDS_PER_WORKER * self.workers if self.playing else 0

    @property
    def restarts(self) -> int:
        """Replacements of the player, and of its workers."""
        return max(0, self._starts - 1) + self._pool_restarts + int(self._pool["restarts"])

    async def serve(self) -> None:
        """Run until cancelled, which happens when the node has left the cluster."""
        while True:
            problem, why = await self._play()
            if problem:
                if kind_of_error(problem) != kind_of_error(self._last_problem):
                    self._hub.notice(f"node {self.name} does not play: {problem}")
                self._last_problem = problem
                await asyncio.sleep(REFUSED_SECONDS)
                continue
            self._failures += 1
            await asyncio.sleep(min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2 ** min(self._failures - 1, 10)))
            if kind_of_error(why) != kind_of_error(self._last_problem) or self._failures == 1:
                self._hub.notice(f"node {self.name} is started again: {why}")
            self._last_problem = why

    def request(self) -> None:
        """Ask the player for one more round. Newer weights are sent with it, unless others are on their way."""
        self.asked_at = time.monotonic()
        version = self._version if self._send_newer_weights() else self._arrived
        self.outstanding += 1
        self._tasks.create_task(self._fetch(version))

    async def _play(self) -> tuple[str, str]:
        """Start a player, and return when it is lost: what is wrong with the node, or why the player was lost."""
        self.number, seed = self._hub.next_number()
        self._starts += 1
        why, has_joined = "", False
        self._actor = _start_actor(self._hub.actor_class, self._node_id, self._hub.code)
        try:
            problem: str | None = await _answer(
                self._actor.prepare.remote(self._hub.spec, self.number, seed, self.workers), START_SECONDS
            )
            if problem:
                self._starts -= 1
                return problem, ""
            self._version, weights, size = self._hub.newest_weights()
            await self._load_weights(self._version, weights, size)
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self._ping())
                self.playing, self._answered_at = True, time.monotonic()
                has_joined = True
                self._hub.joined(self)
        except* (RayError, TimeoutError, PlayerLostError) as group:
            why = _reason(group.exceptions[0])
        finally:
            self.playing, self.outstanding, self._is_sending = False, 0, False
            self._pool_restarts += int(self._pool["restarts"])
            self._pool = {"restarts": 0}
            with suppress(RayError):  # it has ended, or its node has
                ray.kill(self._actor)
            if has_joined:
                self._hub.left(self)
        return "", why

    def _lost(self, why: str) -> PlayerLostError:
        """To be raised by a task; from now on, nobody asks this player for a round."""
        self.playing = False
        return PlayerLostError(why)

    async def _fetch(self, version: int) -> None:
        """One round, which is not played with older weights than `version`."""
        try:
            content = await self._actor.next_round.remote(version)
        except ActorUnavailableError:
            return  # the network was cut and this round is lost; `_ping` finds out whether the player is still there
        except RayError as error:
            raise self._lost(_reason(error)) from None
        finally:
            self.outstanding -= 1
        if not isinstance(content, bytes):
            raise self._lost("it answered with something that is no round")
        self._failures = 0
        self._last_problem = ""
        self._noticed.clear()
        self.received_bytes += len(content)
        self._hub.landed(self, content)

    def _send_newer_weights(self) -> bool:
        """Start to send the newest weights, unless others were sent a moment ago or are on their way."""
        if self._is_sending:
            return False
        version, weights, size = self._hub.newest_weights()
        if version <= self._version:
            return False
        self._version, self._is_sending = version, True
        self._tasks.create_task(self._send_weights(version, weights, size))
        return True

    async def _send_weights(self, version: int, weights: ObjectRef[Any], size: int) -> None:
        """Send weights, and leave a slow network as much time for unrolls."""
        try:
            await self._load_weights(version, weights, size)
            await asyncio.sleep(min(LONGEST_PAUSE, (self.publish_ms or 0.0) / 1000))
            self._is_sending = False
            if self.outstanding > self.workers:  # a round that is asked for already will be played with them
                self._send_newer_weights()
        except (RayError, TimeoutError) as error:
            raise self._lost(_reason(error)) from None
        except Exception as error:  # rounds wait for these weights
            raise self._lost(f"weights could not be sent ({error!r})") from error

    async def _load_weights(self, version: int, weights: ObjectRef[Any], size: int) -> None:
        begun = time.monotonic()
        await _reached(lambda: self._actor.load_weights.remote(version, weights), SILENCE_SECONDS)
        self.publish_ms = 1000 * (time.monotonic() - begun)
        self.sent_bytes += size
        self._arrived = version

    async def _ping(self) -> None:
        try:
            while True:
                begun = time.monotonic()
                self._pool = await _reached(self._actor.figures.remote, SILENCE_SECONDS)
                self._answered_at = time.monotonic()
                self.round_trip_ms = 1000 * (time.monotonic() - begun)
                for text in self._pool["notices"]:
                    if self._noticed.is_new(text):  # each new player of a broken node says the same
                        self._hub.notice(f"node {self.name}: {text}")
                await asyncio.sleep(PING_SECONDS)
        except (RayError, TimeoutError) as error:
            raise self._lost(_reason(error)) from None


def _start_actor(actor_class: Any, node_id: str, code: str) -> "ActorHandle[NodeActor]":
    """It takes no CPU of Ray's, because its workers are no processes of Ray."""
    handle: ActorHandle[NodeActor] = actor_class.options(
        num_cpus=0,
        max_restarts=0,
        max_concurrency=MOST_CALLS,
        enable_task_events=False,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
    ).remote(str(ROOT), code, platform.python_version())
    return handle


async def _answer(reference: Awaitable[Answer], seconds: float) -> Answer:
    """The value of a call; TimeoutError if it takes longer.

    `asyncio.wait_for` of Python 3.11 can lose a cancellation.
    """
    async with asyncio.timeout(seconds):
        return await reference


async def _reached(call: Callable[[], Awaitable[Answer]], seconds: float) -> Answer:
    """The value of a call that is made again while the network to the actor is cut; TimeoutError if it takes longer."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await _answer(call(), deadline - time.monotonic())
        except ActorUnavailableError:
            await asyncio.sleep(PING_SECONDS)
            if time.monotonic() > deadline:
                raise TimeoutError from None


def _reason(error: BaseException) -> str:
    """An error of Ray's or of this module, in one line."""
    if isinstance(error, TimeoutError):
        return "it did not answer"
    if isinstance(error, RayTaskError):
        return f"its player failed ({one_line(error)})"
    return f"its player was lost ({first_line(error)})"
