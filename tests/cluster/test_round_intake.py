"""The learner's intake: every unroll is taken once, and what is malformed, old or repeated is refused and counted."""

from collections.abc import Mapping, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.cluster_actors import ClusterActors
from cluster.node_statistics import NodeStatistics
from cluster.round_format import RoundSlots, longest_round, pack_round
from cluster.round_intake import WORKERS_PER_SEAT, RoundIntake
from processes.messages import Kind
from replay.row_layout import Rows
from replay.storage import UnrollCodec
from replay.unroll_layout import UnrollLayout
from tests.cluster.rounds import LAYOUT, described, packed, unrolls

ENVIRONMENTS = 4
SLOTS = 8


class Intake:
    """An intake with a node, a slot for each round, and what it said."""

    def __init__(self, max_policy_lag: int = 0) -> None:
        self.node_statistics = NodeStatistics(LAYOUT.unroll_length)
        self.node_statistics.joined(described())
        self.round_slots = RoundSlots(SLOTS, longest_round(ENVIRONMENTS, LAYOUT.nbytes))
        self.freed: list[int] = []
        self.said: list[str] = []
        self.intake = RoundIntake(
            LAYOUT,
            self.round_slots,
            self.node_statistics,
            ENVIRONMENTS,
            max_policy_lag,
            self.freed.append,
            self.said.append,
        )
        self._slots = count()

    def deliver(self, content: bytes, sender: int = 0) -> None:
        slot = next(self._slots) % SLOTS
        self.round_slots.write(slot, sender, content)
        self.intake.deliver(slot)

    def take(self, limit: int = 1000) -> list[Rows]:
        taken: list[Rows] = []
        while self.intake.ready and len(taken) < limit:
            taken += [row.copy() for row in self.intake.take_from_round(limit - len(taken))]
        return taken

    @property
    def figures(self) -> Mapping[str, object]:
        (node,) = self.node_statistics.figures()
        return node


def without_environment(rows: Sequence[Rows]) -> list[bytes]:
    copies = [row.copy() for row in rows]
    for row in copies:
        LAYOUT.array(row, "environment_id")[...] = 0
    return [row.tobytes() for row in copies]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=12))
def test_every_unroll_is_taken_once_however_they_are_drawn(limits: list[int]) -> None:
    setting = Intake()
    setting.intake.version = 3
    sent = [unrolls(ENVIRONMENTS, version=3, seed=seed) for seed in range(3)]
    for sequence, rows in enumerate(sent):
        setting.deliver(packed(rows, sequence=sequence))
    taken = [row for limit in [*limits, 1000] for row in setting.take(limit)]
    assert without_environment(taken) == without_environment(list(np.concatenate(sent)))
    assert setting.freed == [0, 1, 2]
    assert (setting.figures["unrolls_accepted"], setting.figures["unrolls_refused"]) == (12, 0)
    assert setting.figures["agent_steps"] == 12 * LAYOUT.unroll_length


def test_environments_of_nodes_have_their_own_numbers() -> None:
    setting = Intake()
    setting.node_statistics.joined(described(number=1, name="b", seat=2))
    rows = unrolls(2, version=0)
    setting.deliver(packed(rows, player=0))
    setting.deliver(packed(rows, player=1), sender=1)
    numbers = [int(LAYOUT.array(row, "environment_id")) for row in setting.take()]
    seat = WORKERS_PER_SEAT * ENVIRONMENTS
    assert numbers == [seat, seat + 1, 2 * seat, 2 * seat + 1]


def test_old_unrolls_are_refused_and_counted() -> None:
    setting = Intake(max_policy_lag=10)
    setting.intake.version = 20
    rows = unrolls(4, version=10)
    LAYOUT.array(rows, "weight_version")[1:3] = 9
    setting.deliver(packed(rows))
    assert len(setting.take()) == 2
    assert (setting.figures["unrolls_accepted"], setting.figures["unrolls_refused"]) == (2, 2)
    (sentence,) = setting.said
    assert "--max_policy_lag=10" in sentence
    assert setting.freed == [0]


def test_without_a_limit_no_unroll_is_too_old() -> None:
    setting = Intake(max_policy_lag=0)
    setting.intake.version = 10**6
    setting.deliver(packed(unrolls(2, version=0)))
    assert len(setting.take()) == 2


def test_a_round_that_comes_twice_is_taken_once() -> None:
    setting = Intake()
    content = packed(unrolls(2, version=0), sequence=1)
    for each in (content, packed(unrolls(2, version=0, seed=1), sequence=0), content):
        setting.deliver(each)
    assert len(setting.take()) == 4
    assert setting.intake.malformed == 1
    assert setting.freed == [0, 1, 2]


def test_a_round_of_another_player_is_refused_and_counted() -> None:
    setting = Intake()
    setting.deliver(packed(unrolls(2, version=0), player=99))
    assert not setting.take()
    assert setting.said == ["a round of node a was refused: it says that it is from another player"]
    assert setting.figures["unrolls_refused"] == ENVIRONMENTS


def other_layout() -> bytes:
    layout = UnrollLayout(unroll_length=6, frame_stack=1, frame_shape=(1, 6, 6), action_count=3)
    return packed(unrolls(1, version=0, layout=layout), layout=layout)


def not_compressed() -> bytes:
    return pack_round(LAYOUT.fingerprint, 0, 0, [0], [b"\xff" * 100])


def too_short() -> bytes:
    """It decompresses, to fewer bytes than an unroll has."""
    shorter = UnrollLayout(unroll_length=1, frame_stack=1, frame_shape=(1, 6, 6), action_count=3)
    blob = UnrollCodec(shorter, 0).encode(unrolls(1, version=0, layout=shorter)[0])
    return pack_round(LAYOUT.fingerprint, 0, 0, [0], [blob])


def other_version() -> bytes:
    blob = UnrollCodec(LAYOUT, 0).encode(unrolls(1, version=7)[0])
    return pack_round(LAYOUT.fingerprint, 0, 0, [8], [blob])


def future_version() -> bytes:
    return packed(unrolls(1, version=1))


def cut_off() -> bytes:
    return packed(unrolls(1, version=0))[:-1]


def strange_environment() -> bytes:
    rows = unrolls(1, version=0)
    LAYOUT.array(rows, "environment_id")[:] = -1
    return packed(rows)


WHOLE_ROUNDS = (other_layout, cut_off)  # of which no unroll can be read
SINGLE_UNROLLS = (not_compressed, too_short, other_version, future_version, strange_environment)


@pytest.mark.parametrize("make", [*WHOLE_ROUNDS, *SINGLE_UNROLLS])
def test_malformed_rounds_are_refused_and_the_next_is_taken(make: object) -> None:
    assert callable(make)
    setting = Intake()
    content = make()
    setting.deliver(content)
    setting.deliver(content)
    setting.deliver(packed(unrolls(3, version=0), sequence=5))
    assert len(setting.take()) == 3
    assert setting.freed == [0, 1, 2]
    assert setting.intake.malformed == 2
    assert setting.said and all("was refused" in sentence for sentence in setting.said)
    assert setting.figures["unrolls_accepted"] == 3
    first, repeated = ENVIRONMENTS if make in WHOLE_ROUNDS else 1, ENVIRONMENTS
    assert setting.figures["unrolls_refused"] == first + repeated


def test_backpressure_counts_every_round_once_and_malformed_ones_too() -> None:
    setting = Intake()
    flow = setting.intake.flow_control
    flow.set_max_limit(3, added=3)
    setting.deliver(packed(unrolls(ENVIRONMENTS, version=0), sequence=0))
    setting.deliver(b"nonsense")
    setting.deliver(packed(unrolls(ENVIRONMENTS, version=0), sequence=1))
    limits = []
    for _ in range(2 * ENVIRONMENTS):
        setting.take(limit=1)
        limits.append(flow._finished + flow._part)
    assert limits == [0.25, 0.5, 0.75, 1.0, 2.25, 2.5, 2.75, 3.0]
    assert not flow._delivered and len(setting.freed) == 3


def test_the_gateway_knows_the_lower_limit_before_the_place_of_a_taken_round_is_free() -> None:
    sent: list[Kind] = []
    flow = SimpleNamespace(limit=2)
    actors: Any = ClusterActors.__new__(ClusterActors)
    actors._gateway = SimpleNamespace(is_connected=True, send=lambda kind, index: sent.append(kind))
    actors._intake, actors._wanted = SimpleNamespace(flow_control=flow), 3
    actors._free_slot(5)
    assert sent == [Kind.ROUNDS_WANTED, Kind.SLOT_FREE]
