"""Rounds of nodes: each unroll is taken once, and what is damaged, foreign or too old is refused and counted."""

from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.rounds import (
    HEADER_BYTES,
    WORKERS_PER_SEAT,
    Arrived,
    MalformedRoundError,
    RoundIntake,
    RoundSlots,
    longest_round,
    pack_round,
    unpack_round,
)
from option_flags import Config
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from tests.cluster.rounds import LAYOUT, packed, unrolls

ENVIRONMENTS = 4
SLOTS = 8
FINGERPRINT = "0123456789abcdef"
BLOBS = st.lists(st.binary(max_size=300), min_size=1, max_size=20)


@given(BLOBS)
def test_what_is_packed_is_unpacked(blobs: list[bytes]) -> None:
    assert [bytes(blob) for blob in unpack_round(pack_round(FINGERPRINT, blobs), FINGERPRINT)] == blobs


@given(BLOBS, st.data())
def test_one_wrong_byte_is_found(blobs: list[bytes], data: st.DataObject) -> None:
    content = bytearray(pack_round(FINGERPRINT, blobs))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MalformedRoundError):
        unpack_round(bytes(content), FINGERPRINT)


@given(BLOBS, st.data())
def test_a_round_that_was_cut_off_is_refused(blobs: list[bytes], data: st.DataObject) -> None:
    content = pack_round(FINGERPRINT, blobs)
    with pytest.raises(MalformedRoundError):
        unpack_round(content[: data.draw(st.integers(0, len(content) - 1))], FINGERPRINT)


@given(st.binary(max_size=200))
def test_noise_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedRoundError):
        unpack_round(content, FINGERPRINT)


def test_the_longest_round_has_room_for_unrolls_that_do_not_compress() -> None:
    incompressible = b"x" * (1000 + 1000 // 255 + 16)
    assert len(pack_round(FINGERPRINT, [incompressible] * 2)) == longest_round(2, 1000)
    assert longest_round(0, 1000) == HEADER_BYTES


class Intake:
    """An intake with a node, a slot for each round, and what it said."""

    def __init__(self, max_policy_lag: int = 0, version: int = 0) -> None:
        self.slots = RoundSlots(SLOTS, longest_round(ENVIRONMENTS, LAYOUT.nbytes))
        self.said: list[str] = []
        flags = {"envs_per_worker": ENVIRONMENTS, "max_policy_lag": max_policy_lag}
        self.intake = RoundIntake(LAYOUT, self.slots, Config.from_flags(flags), self.said.append, version)
        self.intake.nodes.joined("a", workers=2, capacity=4)
        self._slots = count()

    def deliver(self, content: bytes, node: str = "a") -> None:
        slot = next(self._slots) % SLOTS
        self.slots.write(slot, content)
        self.intake.deliver(Arrived(slot, node, len(content)))

    def take(self, limit: int = 1000) -> list[Rows]:
        taken: list[Rows] = []
        while self.intake.ready and len(taken) < limit:
            taken += [row.copy() for row in self.intake.take_from_round(limit - len(taken))]
        return taken

    @property
    def figures(self) -> Mapping[str, object]:
        (node,) = self.intake.nodes.figures()
        return node


def without_environment(rows: Sequence[Rows]) -> list[bytes]:
    copies = [row.copy() for row in rows]
    for row in copies:
        LAYOUT.array(row, "environment_id")[...] = 0
    return [row.tobytes() for row in copies]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=12))
def test_every_unroll_is_taken_once_however_they_are_drawn(limits: list[int]) -> None:
    setting = Intake(version=3)
    sent = [unrolls(ENVIRONMENTS, version=3, seed=seed) for seed in range(3)]
    for rows in sent:
        setting.deliver(packed(rows))
    taken = [row for limit in [*limits, 1000] for row in setting.take(limit)]
    assert without_environment(taken) == without_environment(list(np.concatenate(sent)))
    assert setting.intake.free == [0, 1, 2]
    assert (setting.figures["unrolls_accepted"], setting.figures["unrolls_refused"]) == (12, 0)
    assert setting.figures["agent_steps"] == 12 * LAYOUT.unroll_length


def test_environments_of_nodes_have_their_own_numbers() -> None:
    setting = Intake()
    setting.intake.nodes.joined("b", workers=2, capacity=4)
    for node in ("a", "b"):
        setting.deliver(packed(unrolls(2, version=0)), node)
    numbers = [int(LAYOUT.array(row, "environment_id")) for row in setting.take()]
    seat = WORKERS_PER_SEAT * ENVIRONMENTS
    assert numbers == [seat, seat + 1, 2 * seat, 2 * seat + 1]


def test_old_unrolls_are_refused_and_counted() -> None:
    setting = Intake(max_policy_lag=10, version=20)
    rows = unrolls(4, version=10)
    LAYOUT.array(rows, "weight_version")[1:3] = 9
    setting.deliver(packed(rows))
    assert len(setting.take()) == 2
    assert (setting.figures["unrolls_accepted"], setting.figures["unrolls_refused"]) == (2, 2)
    (sentence,) = setting.said
    assert "--max_policy_lag=10" in sentence
    assert setting.intake.free == [0]


def test_without_a_limit_no_unroll_is_too_old() -> None:
    setting = Intake(max_policy_lag=0, version=10**6)
    setting.deliver(packed(unrolls(2, version=0)))
    assert len(setting.take()) == 2


def other_layout() -> bytes:
    layout = UnrollLayout(unroll_length=6, frame_stack=1, frame_shape=(1, 6, 6), action_count=3)
    return packed(unrolls(1, version=0, layout=layout), layout=layout)


@pytest.mark.parametrize("content", [other_layout(), packed(unrolls(1, version=0))[:-1], b""])
def test_malformed_rounds_are_refused_and_the_next_is_taken(content: bytes) -> None:
    setting = Intake()
    setting.deliver(content)
    setting.deliver(content)
    setting.deliver(packed(unrolls(3, version=0)))
    assert len(setting.take()) == 3
    assert setting.intake.free == [0, 1, 2]
    (sentence,) = setting.said
    assert sentence.startswith("a round of node a was refused: ")
    assert (setting.figures["unrolls_accepted"], setting.figures["unrolls_refused"]) == (3, 2 * ENVIRONMENTS)


def test_a_round_of_a_node_that_left_long_ago_is_skipped() -> None:
    setting = Intake()
    setting.deliver(packed(unrolls(2, version=0)), node="forgotten")
    setting.deliver(packed(unrolls(2, version=0)))
    assert len(setting.take()) == 2 and setting.intake.free == [0, 1]


def test_backpressure_counts_every_round_once_and_malformed_ones_too() -> None:
    setting = Intake()
    flow = setting.intake.flow_control
    flow.set_max_limit(3, added=3)
    setting.deliver(packed(unrolls(ENVIRONMENTS, version=0)))
    setting.deliver(b"nonsense")
    setting.deliver(packed(unrolls(ENVIRONMENTS, version=0)))
    limits = []
    for _ in range(2 * ENVIRONMENTS):
        setting.take(limit=1)
        limits.append(flow._finished + flow._part)
    assert limits == [0.25, 0.5, 0.75, 1.0, 2.25, 2.5, 2.75, 3.0]
    assert not flow._delivered and len(setting.intake.free) == 3
