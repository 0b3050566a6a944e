"""Rounds of nodes: each unroll is taken once, and what is too old is refused. Counters of nodes only grow."""

from collections.abc import Sequence

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from cluster.intake import WORKERS_PER_SEAT, NodeStatistics, RoundIntake
from machine.machine_setup import Machine
from option_flags import Config
from replay.row_layout import Rows
from replay.storage import UnrollCodec
from replay.unroll_layout import UnrollLayout
from tests.workers.pools import Clock

LAYOUT = UnrollLayout(unroll_length=5, frame_stack=1, frame_shape=(1, 6, 6), action_sizes=(3,))
MACHINE = Machine(torch.device("cpu"), torch.float32, torch.float32, 1, 2, 1)
ENVIRONMENTS = 4


def unrolls(count: int, version: int, seed: int = 0) -> Rows:
    """Random rows `[count, nbytes]` of the given weight version, from the environments 0, 1, 2, …"""
    rng = np.random.default_rng(seed)
    rows: Rows = rng.integers(0, 256, (count, LAYOUT.nbytes), np.uint8)
    LAYOUT.array(rows, "weight_version")[:] = version
    LAYOUT.array(rows, "environment_id")[:] = np.arange(count)
    return rows


def figures(node: str = "a", workers: int = 2, restarts: int = 0, received_bytes: int = 0) -> dict[str, object]:
    """Of a node, as the gateway tells them; without workers, it does not play."""
    state = {"node": node, "workers": workers, "capacity": 2 * workers}
    counts = {"restarts": restarts, "received_bytes": received_bytes, "sent_bytes": 0}
    return {**state, **counts, "round_trip_ms": 1.0, "publish_ms": 2.0}


class Intake(RoundIntake):
    """An intake with a node, and what it said."""

    def __init__(self, max_policy_lag: int = 0, version: int = 0) -> None:
        self.said: list[str] = []
        flags = {"envs_per_worker": ENVIRONMENTS, "max_policy_lag": max_policy_lag}
        super().__init__(LAYOUT, Config.from_flags(flags), self.said.append, version)
        self.nodes.update([figures()])

    def add(self, rows: Rows, node: str = "a") -> None:
        codec = UnrollCodec(LAYOUT, 0)
        self.deliver(node, [codec.encode(row) for row in rows])

    def take(self, limit: int = 1000) -> list[Rows]:
        taken: list[Rows] = []
        while self.ready and len(taken) < limit:
            taken += [row.copy() for row in self.take_from_round(limit - len(taken))]
        return taken

    def counts(self) -> tuple[object, object]:
        (node,) = self.nodes.figures()
        return node["unrolls_accepted"], node["unrolls_refused"]


def without_environment(rows: Sequence[Rows]) -> list[bytes]:
    copies = [row.copy() for row in rows]
    for row in copies:
        LAYOUT.array(row, "environment_id")[...] = 0
    return [row.tobytes() for row in copies]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=12))
def test_every_unroll_is_taken_once_however_they_are_drawn(limits: list[int]) -> None:
    intake = Intake(version=3)
    sent = [unrolls(ENVIRONMENTS, version=3, seed=seed) for seed in range(3)]
    for rows in sent:
        intake.add(rows)
    taken = [row for limit in [*limits, 1000] for row in intake.take(limit)]
    assert without_environment(taken) == without_environment(list(np.concatenate(sent)))
    assert intake.taken == 3 and intake.counts() == (12, 0)
    assert intake.nodes.figures()[0]["agent_steps"] == 12 * LAYOUT.unroll_length


def test_environments_of_nodes_have_their_own_numbers() -> None:
    intake = Intake()
    for node in ("a", "b"):
        intake.add(unrolls(2, version=0), node)
    numbers = [int(LAYOUT.array(row, "environment_id")) for row in intake.take()]
    seat = WORKERS_PER_SEAT * ENVIRONMENTS
    assert numbers == [seat, seat + 1, 2 * seat, 2 * seat + 1]


def test_old_unrolls_are_refused_and_counted() -> None:
    intake = Intake(max_policy_lag=10, version=20)
    rows = unrolls(4, version=10)
    LAYOUT.array(rows, "weight_version")[1:3] = 9
    intake.add(rows)
    intake.add(unrolls(1, version=9))
    assert len(intake.take()) == 2
    assert intake.taken == 2 and intake.counts() == (2, 3)
    (sentence,) = intake.said
    assert "--max_policy_lag=10" in sentence
    without_limit = Intake(max_policy_lag=0, version=10**6)
    without_limit.add(unrolls(2, version=0))
    assert len(without_limit.take()) == 2


def test_a_round_that_is_half_taken_leaves_half_of_its_room() -> None:
    """Backpressure counts it so."""
    intake = Intake()
    intake.flow_control.set_max_limit(8)
    limit = intake.flow_control.limit
    intake.add(unrolls(ENVIRONMENTS, version=0))
    seen = []
    for _ in range(ENVIRONMENTS):
        intake.take(limit=1)
        seen.append(intake.taken + intake.flow_control.limit - limit)
    assert seen == [0, 0, 0, 1]


def test_the_counters_of_a_node_that_comes_back_go_on() -> None:
    clock = Clock()
    nodes = NodeStatistics(LAYOUT.unroll_length, clock)
    nodes.update([figures(received_bytes=6000, restarts=3), figures("b", workers=1)])
    assert nodes.capacity == 6
    nodes.all_left()  # the gateway has ended
    assert nodes.capacity == 0 and not any(node["alive"] for node in nodes.figures())
    clock.now += 2
    nodes.update([figures(received_bytes=500, restarts=1)])
    here, _ = nodes.figures()
    assert (here["alive"], here["restarts"], here["received_bytes_per_second"]) == (True, 4, 6500 / 2)
    nodes.update([figures(workers=0)])
    assert nodes.capacity == 0


def test_speed_and_lag_are_means_of_the_latest_seconds() -> None:
    clock = Clock()
    nodes = NodeStatistics(LAYOUT.unroll_length, clock)
    node = nodes.named("a")
    for lag in (100, *[2] * 15):  # the first one is too long ago
        node.counts.update(accepted=1, lag=lag)
        clock.now += 1
        nodes.tick()
    (said,) = nodes.figures()
    assert (said["steps_per_second"], said["policy_lag"]) == (LAYOUT.unroll_length, 2)
    assert said["agent_steps"] == 16 * LAYOUT.unroll_length
