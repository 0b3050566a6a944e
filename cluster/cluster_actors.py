"""The acting side of a run on a cluster: the workers of this machine, and through the gateway those of other nodes.

The gateway is the only process of a run that loads Ray. The learner starts it and never waits for it.
"""

import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch

from agents.network import ActorCritic
from cluster.node_actor import code_version
from cluster.node_player import PlayerSpec, played_code
from cluster.rounds import Arrived, RoundIntake, RoundSlots, longest_round
from machine.stop_signals import StopSignals
from option_flags import Config
from options.rules import counted
from processes.child import start_child
from processes.messages import Kind, Message
from processes.pool import ChildPool, Ended, Member
from processes.printed import kind_of_error, reason
from replay.row_layout import Rows
from run_files.metrics import JsonValue
from workers import actors as local_actors
from workers.actors import Actors
from workers.memory.shared_weights import SharedWeights
from workers.worker import PlaySetup

SLOTS = 32  # for rounds on their way from the gateway to the replays
STATUS_SECONDS = 1.0
SILENCE_SECONDS = 60.0  # without a heartbeat, after which the gateway is replaced; loading Ray takes some of them
UNREACHABLE_SECONDS = 5.0  # between two tries to reach a head that does not answer
END_SECONDS = 3.0  # for an end in good order


@dataclass(frozen=True)
class Gateway:
    """What the gateway process gets when it starts, and what it does."""

    config: Config
    spec: bytes  # a pickled PlayerSpec, which only nodes unpickle
    code: str  # the version of the code at the start of the run
    begun: float  # time at which the run began
    resume_count: int
    restart_index: int  # gateways before this one in the same run
    weights: SharedWeights
    bfloat16: bool  # whether weights travel in this format
    round_slots: RoundSlots

    def run(self, connection: Connection) -> None:
        """Serve the learner until it closes the connection."""
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ["RAY_task_events_report_interval_ms"] = "0"  # noqa: SIM112  # or the head notes every call
        os.environ["RAY_DEDUP_LOGS"] = "0"
        nowhere = os.open(os.devnull, os.O_WRONLY)  # for what Ray prints, because its log files have it all
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        os.close(nowhere)
        from cluster.gateway import serve

        serve(self, connection)


class GatewayProcess:
    """Keeps one gateway running. A cluster that cannot be reached is tried again and again, and the run goes on."""

    def __init__(
        self,
        make_gateway: Callable[[int], Any],  # from the number of gateways before it
        children: ChildPool,  # that has no other child
    ) -> None:
        self.children = children
        self.is_connected = False
        self._member = Member("the gateway to the cluster", make_gateway, owes_at_start=1)
        self._unreachable = ""  # why the cluster cannot be reached, once announced
        children.start_later(self._member, 0.0)

    def send(self, kind: Kind, index: int = 0, payload: Any = None) -> None:
        """Send a message to a gateway that has connected; another one is told everything when it has."""
        if self.is_connected and self._member.child is not None:
            self._member.child.send(kind, index, payload)

    def poll(self) -> Iterator[Message | Ended]:
        """What the gateway has sent: first a HEARTBEAT, when it has connected. At last its end: it is replaced."""
        for _, event in self.children.poll(0.0):
            if isinstance(event, Ended):
                self._replace(event)
            elif event.kind == Kind.HEARTBEAT:
                if self.is_connected:
                    # It has worked for a while: only failures of a start count as failures in a row.
                    self._member.failures = 0
                    continue
                self.is_connected = True
                if self._unreachable:
                    self._unreachable = ""
                    self.children.announce("the cluster answers again")
            yield event

    def close(self) -> None:
        """End the gateway, and with it everything of the run in the cluster."""
        self.children.end(self._member, grace=END_SECONDS)  # its pipe is closed: so it leaves the cluster in good order
        self.children.close()

    def _replace(self, ended: Ended) -> None:
        if self.is_connected:
            self.is_connected = False
            self.children.replace(self._member, ended)
            return
        self.children.start_later(self._member, UNREACHABLE_SECONDS)
        why = reason(ended.details) or f"its gateway {ended.what}"
        if kind_of_error(why) != kind_of_error(self._unreachable):
            self.children.announce(
                f"the cluster cannot be reached ({why}); the run goes on without it, and tries again every "
                f"{UNREACHABLE_SECONDS:g} seconds"
            )
        self._unreachable = why


class ClusterActors(Actors):
    """Takes rounds of this machine and of other nodes in turn, and commands from anywhere in the cluster."""

    def __init__(self, local: Actors, gateway: GatewayProcess, intake: RoundIntake, environments: int) -> None:
        """`environments` of each worker."""
        super().__init__(local.pool, local.publisher, local.times, lockstep=False)
        self._gateway = gateway
        self._intake = intake
        self._environments = environments
        self._wanted = 0  # rounds of nodes, as the gateway knows it
        self._taken_locally = 0  # unrolls of the pool's oldest round
        self._remote_turn = False
        self._told_at = 0.0
        self._commanded: tuple[str, StopSignals, Callable[[], str]] | None = None

    def wait(self, timeout: float) -> None:
        self._hear()
        self.pool.wait(0.0)
        if not self._intake.ready and not self.pool.rounds_ready:
            self._intake.flow_control.nothing_delivered(learner_waits=timeout > 0)
            self._tell_wanted()
            self.pool.wait(timeout, [self._gateway.children])
            self._hear()
        self._tell_wanted()
        self._tell_status()
        self._intake.nodes.tick()

    def take(self, limit: int) -> Iterator[Rows]:
        """At most `limit` unrolls: one round of this machine, one of another node, and so on."""
        taken = 0
        while taken < limit and (self.pool.rounds_ready or self._intake.ready):
            if self._intake.ready and (self._remote_turn or not self.pool.rounds_ready):
                for row in self._intake.take_from_round(limit - taken):
                    taken += 1
                    yield row
                self._remote_turn = not self._intake.free  # the round is not taken completely
                self._free_slots()
            else:
                for row in self.pool.take(min(limit - taken, self._environments - self._taken_locally)):
                    taken += 1
                    self._taken_locally += 1
                    yield row
                self._remote_turn = self._taken_locally == self._environments
                self._taken_locally %= self._environments

    def publish(self, version: int) -> None:
        self._intake.version = version
        super().publish(version)

    def node_figures(self) -> Sequence[dict[str, JsonValue]]:
        return self._intake.nodes.figures()

    def answer_commands(self, run: str, stop: StopSignals, state_line: Callable[[], str]) -> None:
        self._commanded = run, stop, state_line

    def close(self) -> None:
        try:
            self._gateway.close()
        finally:
            super().close()

    def _hear(self) -> None:
        """Receive what the gateway has sent."""
        nodes = self._intake.nodes
        for event in self._gateway.poll():
            if isinstance(event, Ended):
                nodes.all_left()
                self._set_capacity()
                continue
            match event.kind:
                case Kind.HEARTBEAT:
                    self._wanted = 0
                    self._intake.free = sorted(set(range(SLOTS)) - self._intake.slots_in_use())
                    self._free_slots()
                case Kind.SLOT_FILLED:
                    self._intake.deliver(Arrived(event.index, *event.payload))
                case Kind.NODE_JOINED:
                    nodes.joined(**event.payload)
                    self._set_capacity(event.payload["capacity"])
                    workers = counted(event.payload["workers"], "worker")
                    self._gateway.children.announce(f"node {event.payload['name']} plays with {workers}")
                case Kind.NODE_LEFT:
                    nodes.update([event.payload])
                    nodes.left(event.payload["node"])
                    self._set_capacity()
                case Kind.NODE_FIGURES:
                    nodes.update(event.payload)
                case Kind.NOTICE:
                    self._gateway.children.announce(str(event.payload))
                case Kind.COMMAND:
                    self._obey(str(event.payload))

    def _obey(self, command: str) -> None:
        if self._commanded is not None:
            self._gateway.children.announce(f"{command}: asked for by a command from the cluster")
            _, stop, _ = self._commanded
            if command == "stop":
                stop.request()
            else:
                stop.save_now = True

    def _set_capacity(self, added: int = 0) -> None:
        """Nodes have come or gone; a new node begins to play at once."""
        self._intake.flow_control.set_max_limit(self._intake.nodes.capacity, added)

    def _tell_wanted(self) -> None:
        wanted = self._intake.flow_control.limit
        if wanted != self._wanted and self._gateway.is_connected:
            self._wanted = wanted
            self._gateway.send(Kind.ROUNDS_WANTED, wanted)

    def _free_slots(self) -> None:
        self._tell_wanted()  # before, or the gateway would count the taken round twice as room for another one
        for slot in self._intake.free:
            self._gateway.send(Kind.SLOT_FREE, slot)
        self._intake.free = []

    def _tell_status(self) -> None:
        """Once a second, tell the cluster how the run is. The gateway answers with figures of all nodes."""
        now = time.monotonic()
        if now - self._told_at > STATUS_SECONDS:
            self._told_at = now
            status = {}
            if self._commanded is not None:
                run, _, state_line = self._commanded
                status = {"run": run, "line": state_line()}
            self._gateway.send(Kind.RUN_STATUS, payload=status)


def make_actors(
    setup: PlaySetup,
    network: ActorCritic,
    version: int,
    announce: Callable[[str], None],
    snapshot: dict[str, Any] | None = None,
) -> Actors:
    """The workers of this machine, which may continue from a snapshot, and with --cluster those of other nodes."""
    local = local_actors.make_actors(setup, network, version, announce, snapshot)
    config, layout = setup.config, setup.layout
    if config.cluster.cluster is None:
        return local
    environments = config.workers.envs_per_worker
    slots = RoundSlots(SLOTS, longest_round(environments, layout.nbytes))
    # Statistics of vectors and values would lose digits that count.
    has_statistics = layout.vector_size or config.network.popart
    auto = torch.float32 if has_statistics else setup.machine.worker_precision
    formats = {"auto": auto, "float32": torch.float32, "bfloat16": torch.bfloat16}
    make_gateway = partial(
        Gateway,
        config,
        # Both versions once: files that change during the run must not make nodes look like the learner.
        pickle.dumps(PlayerSpec(config, setup.make_environment, layout, setup.resume_count, played_code(config))),
        code_version(),
        time.time(),
        setup.resume_count,
        weights=local.publisher.weights,
        bfloat16=formats[config.cluster.weights_precision] == torch.bfloat16,
        round_slots=slots,
    )
    children = ChildPool(
        announce,
        silence=SILENCE_SECONDS,
        budget=config.workers.worker_restart_budget,
        start=partial(start_child, logs=setup.logs),
    )
    intake = RoundIntake(layout, slots, config, announce, version)
    return ClusterActors(local, GatewayProcess(make_gateway, children), intake, environments)
