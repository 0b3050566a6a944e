"""The acting side of a run on a cluster: the workers of this machine, and through the gateway those of other nodes.

The gateway is the only process of a run that loads Ray. The learner starts it and never waits for it.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch

from cluster.intake import RoundIntake
from cluster.node_actor import code_version
from cluster.node_player import played_code
from processes.child import start_child
from processes.messages import Kind, Message
from processes.pool import ChildPool, Ended, Member
from processes.printed import kind_of_error, reason
from replay.row_layout import Rows
from run_files.metrics import JsonValue
from workers.actors import Actors
from workers.shared_weights import SharedWeights
from workers.worker import PlaySetup

SILENCE_SECONDS = 60.0  # without a heartbeat, after which the gateway is replaced; loading Ray takes some of them
UNREACHABLE_SECONDS = 5.0  # between two tries to reach a head that does not answer
END_SECONDS = 3.0  # for an end in good order


@dataclass(frozen=True)
class Gateway:
    """What the gateway process gets when it starts, and what it does."""

    setup: PlaySetup  # of the learner; nodes play the same
    played_code: Mapping[str, str]  # `played_code` of the learner at the start of the run
    code: str  # the version of the code then
    weights: SharedWeights
    bfloat16: bool  # whether weights travel in this format
    restart_index: int  # gateways before this one in the same run

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
        why = why.partition("UsageError: ")[2] or why
        if kind_of_error(why) != kind_of_error(self._unreachable):
            self.children.announce(
                f"the cluster cannot be reached ({why}); the run goes on without it, and tries again every "
                f"{UNREACHABLE_SECONDS:g} seconds"
            )
        self._unreachable = why


class ClusterActors(Actors):
    """Takes unrolls of this machine and of other nodes in turn."""

    def __init__(self, local: Actors, gateway: GatewayProcess, intake: RoundIntake) -> None:
        super().__init__(local.pool, local.publisher, local.times)
        self._gateway = gateway
        self._intake = intake
        self._rounds_before = 0  # that have come from the gateways before this one
        self._wanted = 0  # as the gateway knows it
        self._remote_turn = False

    def wait(self, timeout: float) -> None:
        self._hear()
        self.pool.wait(0.0)
        if not self._intake.ready and not self.pool.rounds_ready:
            self._intake.flow_control.nothing_delivered(learner_waits=timeout > 0)
            self._tell_wanted()
            self.pool.wait(timeout, [self._gateway.children])
            self._hear()
        self._tell_wanted()
        self._intake.nodes.tick()

    def take(self, limit: int) -> Iterator[Rows]:
        """At most `limit` unrolls: one of this machine, one of another node, and so on."""
        taken = 0
        while taken < limit and (self.pool.rounds_ready or self._intake.ready):
            is_remote = self._intake.ready and (self._remote_turn or not self.pool.rounds_ready)
            self._remote_turn = not is_remote
            for row in self._intake.take_from_round(1) if is_remote else self.pool.take(1):
                taken += 1
                yield row
            self._tell_wanted()

    def publish(self, version: int) -> None:
        self._intake.version = version
        super().publish(version)

    def node_figures(self) -> Sequence[dict[str, JsonValue]]:
        return self._intake.nodes.figures()

    def close(self) -> None:
        try:
            self._gateway.close()
        finally:
            super().close()

    def _hear(self) -> None:
        """Receive what the gateway has sent."""
        for event in self._gateway.poll():
            if isinstance(event, Ended):
                self._intake.nodes.all_left()
                self._set_capacity()
                continue
            match event.kind:
                case Kind.HEARTBEAT:
                    self._wanted, self._rounds_before = 0, self._intake.taken + self._intake.ready
                case Kind.ROUND:
                    self._intake.deliver(*event.payload)
                case Kind.NODE_FIGURES:
                    self._intake.nodes.update(event.payload)
                    self._set_capacity()
                case Kind.NOTICE:
                    self._gateway.children.announce(str(event.payload))

    def _set_capacity(self) -> None:
        """Nodes may have come or gone; a new node begins to play at once."""
        flow, capacity = self._intake.flow_control, self._intake.nodes.capacity
        if capacity != flow.max_limit:
            flow.set_max_limit(capacity)

    def _tell_wanted(self) -> None:
        """Tell the gateway how many rounds it may have asked nodes for since it connected, lost ones left out."""
        intake = self._intake
        wanted = max(0, intake.taken + intake.flow_control.limit - self._rounds_before)
        if wanted != self._wanted and self._gateway.is_connected:
            self._wanted = wanted
            self._gateway.send(Kind.ROUNDS_WANTED, wanted)


def with_nodes(local: Actors, setup: PlaySetup, version: int, announce: Callable[[str], None]) -> Actors:
    """The workers of this machine, and those of the other nodes of --cluster."""
    config, layout = setup.config, setup.layout
    # Statistics of vectors and values would lose digits that count.
    has_statistics = layout.vector_size or config.network.popart
    auto = torch.float32 if has_statistics else setup.machine.worker_precision
    formats = {"auto": auto, "float32": torch.float32, "bfloat16": torch.bfloat16}
    bfloat16 = formats[config.cluster.weights_precision] == torch.bfloat16
    # Both versions once: files that change during the run must not make nodes look like the learner.
    make_gateway = partial(Gateway, setup, played_code(config), code_version(), local.publisher.weights, bfloat16)
    children = ChildPool(
        announce,
        silence=SILENCE_SECONDS,
        budget=config.workers.worker_restart_budget,
        start=partial(start_child, logs=setup.logs),
    )
    intake = RoundIntake(layout, config, announce, version)
    return ClusterActors(local, GatewayProcess(make_gateway, children), intake)
