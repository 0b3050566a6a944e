"""The acting side of a run on a cluster: the workers of this machine, and those of all other nodes."""

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from agents.network import ActorCritic
from cluster.gateway import Gateway
from cluster.gateway_process import SILENCE_SECONDS, GatewayProcess
from cluster.node_code import code_version
from cluster.node_player import PlayerSpec
from cluster.node_statistics import NodeStatistics
from cluster.played_code import played_code
from cluster.round_format import RoundSlots, longest_round
from cluster.round_intake import RoundIntake
from machine.stop_signals import StopSignals
from options.rules import counted
from processes.child import start_child
from processes.messages import Kind, Message
from processes.pool import ChildPool
from replay.row_layout import Rows
from run_files.metrics import JsonValue
from workers import actors as local_actors
from workers.actors import Actors
from workers.worker import PlaySetup

SLOTS = 32  # for rounds on their way from the gateway to the replays
FIGURES_SECONDS = 1.0


class ClusterActors(Actors):
    """Takes rounds of this machine and of other nodes in turn, and commands from anywhere in the cluster."""

    def __init__(
        self,
        setup: PlaySetup,
        local: Actors,
        make_gateway: Callable[[RoundSlots, int], Gateway],
        announce: Callable[[str], None],
        version: int,  # of the weights at the start
    ) -> None:
        super().__init__(local.pool, local.publisher, local.times, lockstep=False)
        config, layout = setup.config, setup.layout
        self._environments = environments = config.workers.envs_per_worker
        self._announce = announce
        self._round_slots = RoundSlots(SLOTS, longest_round(environments, layout.nbytes))
        self._node_statistics = NodeStatistics(layout.unroll_length)
        self._intake = RoundIntake(
            layout,
            self._round_slots,
            self._node_statistics,
            environments,
            config.cluster.max_policy_lag,
            self._free_slot,
            announce,
        )
        self._intake.version = version
        children = ChildPool(
            announce,
            silence=SILENCE_SECONDS,
            budget=config.workers.worker_restart_budget,
            start=partial(start_child, logs=setup.logs),
        )
        self._gateway = GatewayProcess(
            children,
            lambda starts: make_gateway(self._round_slots, starts),
            self._received,
            self._gateway_started,
            self._gateway_ended,
            announce,
        )
        self._wanted = 0  # rounds of nodes, as the gateway knows it
        self._taken_locally = 0  # unrolls of the pool's oldest round
        self._remote_turn = False
        self._figures_asked_at = 0.0
        self._run = ""
        self._stop: StopSignals | None = None
        self._state_line: Callable[[], str] = str
        self._gateway.poll()

    def wait(self, timeout: float) -> None:
        self._gateway.poll()
        self.pool.wait(0.0)
        if not self._intake.ready and not self.pool.rounds_ready:
            self._intake.flow_control.nothing_delivered(learner_waits=timeout > 0)
            self._tell_wanted()
            self.pool.wait(timeout, [self._gateway.children])
            self._gateway.poll()
        self._tell_wanted()
        self._ask_for_figures()
        self._node_statistics.tick()

    def take(self, limit: int) -> Iterator[Rows]:
        """At most `limit` unrolls: one round of this machine, one of another node, and so on."""
        taken = 0
        while taken < limit and (self.pool.rounds_ready or self._intake.ready):
            if self._intake.ready and (self._remote_turn or not self.pool.rounds_ready):
                ready = self._intake.ready
                for row in self._intake.take_from_round(limit - taken):
                    taken += 1
                    yield row
                self._remote_turn = self._intake.ready == ready  # the round is not taken completely
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
        return self._node_statistics.figures()

    def answer_commands(self, run: str, stop: StopSignals, state_line: Callable[[], str]) -> None:
        self._run, self._stop, self._state_line = run, stop, state_line

    def close(self) -> None:
        try:
            self._gateway.close()
        finally:
            super().close()

    # --- The gateway --------------------------------------------------------------------------------------------------

    def _gateway_started(self) -> None:
        self._wanted = 0
        for slot in set(range(SLOTS)) - self._intake.slots():
            self._gateway.send(Kind.SLOT_FREE, slot)

    def _gateway_ended(self) -> None:
        self._node_statistics.all_left()
        self._intake.forget_players()
        self._set_capacity()

    def _received(self, message: Message) -> None:
        match message.kind:
            case Kind.SLOT_FILLED:
                self._intake.deliver(message.index)
            case Kind.NODE_JOINED:
                node = self._node_statistics.joined(message.payload)
                self._set_capacity(node.capacity)
                self._announce(f"node {node.name} plays with {counted(node.workers, 'worker')}")
            case Kind.NODE_LEFT:
                self._node_statistics.left(message.payload)
                self._set_capacity()
            case Kind.NODE_FIGURES:
                self._node_statistics.update(message.payload)
            case Kind.NOTICE:
                self._announce(str(message.payload))
            case Kind.COMMAND:
                self._obey(str(message.payload))

    def _obey(self, command: str) -> None:
        if self._stop is None:
            return
        if command == "status":
            self._gateway.send(Kind.RUN_STATUS, payload={"run": self._run, "line": self._state_line()})
            return
        self._announce(f"{command}: asked for by a command from the cluster")
        if command == "stop":
            self._stop.request()
        else:
            self._stop.save_now = True

    def _free_slot(self, slot: int) -> None:
        self._tell_wanted()  # before, or the gateway would count the taken round twice as room for another one
        self._gateway.send(Kind.SLOT_FREE, slot)

    def _set_capacity(self, added: int = 0) -> None:
        """Nodes have come or gone; a new node begins to play at once."""
        self._intake.flow_control.set_max_limit(self._node_statistics.capacity, added)

    def _tell_wanted(self) -> None:
        wanted = self._intake.flow_control.limit
        if wanted != self._wanted and self._gateway.is_connected:
            self._wanted = wanted
            self._gateway.send(Kind.ROUNDS_WANTED, wanted)

    def _ask_for_figures(self) -> None:
        now = time.monotonic()
        if now - self._figures_asked_at > FIGURES_SECONDS:
            self._figures_asked_at = now
            self._gateway.send(Kind.NODE_FIGURES)


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
    options, address = config.cluster, config.cluster.cluster
    if address is None:
        return local
    # Both versions once: files that change during the run must not make nodes look like the learner.
    spec = pickle.dumps(PlayerSpec(config, setup.make_environment, layout, setup.resume_count, played_code(config)))
    code = code_version()
    begun = time.time()
    # Statistics of vectors and values would lose digits that count.
    has_statistics = layout.vector_size or config.network.popart
    auto = torch.float32 if has_statistics else setup.machine.worker_precision
    formats = {"auto": auto, "float32": torch.float32, "bfloat16": torch.bfloat16}

    def make_gateway(round_slots: RoundSlots, starts: int) -> Gateway:
        return Gateway(
            address=address,
            spec=spec,
            code=code,
            begun=begun,
            seed=config.seed,
            resume_count=setup.resume_count,
            restart_index=starts,
            node_workers=options.node_workers,
            weights=local.publisher.weights,
            weights_interval=options.weights_interval,
            bfloat16=formats[options.weights_precision] == torch.bfloat16,
            round_slots=round_slots,
        )

    return ClusterActors(setup, local, make_gateway, announce, version)
