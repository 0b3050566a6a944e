"""Batches mixed in the background are those that would have been mixed at once, some updates earlier."""

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from options.replay_options import ReplaySpec
from replay.background_mix import BackgroundMix
from replay.mix import Batch, BatchMix
from replay.protocol import Replay
from tests.replay.any_replay import make_replay, scattered
from tests.replay.numbered_rows import LAYOUT, numbers, row, through_a_tensor_file

pytestmark = pytest.mark.timeout(60)

Told = tuple[list[int], list[float]]  # the numbers in a batch, and all that its draws say of it but the time


class Clock:
    """The learner's updates, as the mix looks them up."""

    updates = 0

    def look(self) -> int:
        return self.updates


def no_upload(rows: torch.Tensor) -> torch.Tensor | None:
    return None


def plain_mix(seed: int = 0, queue: bool = True, gate: Event | None = None) -> BatchMix:
    """A queue and three more, of which two rank; where there is a gate, a ranking waits until it is opened."""

    def distances(of: list[int]) -> Sequence[float]:
        if gate is not None:
            assert gate.wait(30)
        return scattered(of)

    ranked: dict[str, Any] = {"lambda_batch_multiplier": 3.0}
    specs = [
        *([(ReplaySpec("queue", 3, 0.25), 2)] if queue else []),
        (ReplaySpec("standard", 7, 0.25), 2),
        (ReplaySpec("attentive", 9, 0.25, **ranked), 1),
        (ReplaySpec("elite", 8, 0.25, insert_strategy="elite_insertion", **ranked), 2),
    ]
    seeds = np.random.SeedSequence(seed).spawn(len(specs))
    replays: list[Replay] = [
        make_replay(
            layout, share, np.random.default_rng(child), warmup_unrolls=5, planned_updates=12, distances=distances
        )
        for (layout, share), child in zip(specs, seeds, strict=True)
    ]
    return BatchMix(replays, LAYOUT)


def told(batch: Batch) -> Told:
    figures = [float(-1 if figure is None else figure) for draw in batch.draws for figure in (*draw.drawn, draw.age)]
    return numbers(batch.rows.numpy()), figures


@pytest.fixture
def prepared() -> Iterator[list[BackgroundMix]]:
    """Whatever is put in is closed in the end."""
    mixes: list[BackgroundMix] = []
    yield mixes
    for mix in mixes:
        mix.close()


def play(mix: BackgroundMix, clock: Clock, updates: int, first: int = 0) -> tuple[list[Told], int]:
    """The training loop in lockstep: no unroll is taken before it is needed."""
    told_of: list[Told] = []
    number = first
    while len(told_of) < updates:
        mix.ready()
        for _ in range(mix.unrolls_needed()):
            mix.add(row(number))
            number += 1
        if mix.ready():
            told_of.append(told(mix.mix(clock.updates)))
            clock.updates += 1
    return told_of, number


@pytest.mark.parametrize("queue", [True, False])
@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_each_draw_is_made_some_updates_early_and_is_else_the_plain_one(
    prepared: list[BackgroundMix], ahead: int, queue: bool
) -> None:
    clock = Clock()
    mix = BackgroundMix(plain_mix(queue=queue), ahead, clock.look, no_upload)
    prepared.append(mix)
    batches, number = play(mix, clock, 20)
    plain, expected, added = plain_mix(queue=queue), [], 0
    for update in range(20):
        while not plain.ready():
            for _ in range(plain.unrolls_needed()):
                plain.add(row(added))
                added += 1
        expected.append(told(plain.mix(max(0, update - ahead))))
    assert batches == expected
    assert number >= added


@pytest.mark.parametrize("ahead", [1, 3])
def test_a_slow_background_changes_nothing(prepared: list[BackgroundMix], ahead: int) -> None:
    """It is held until the learner asks for what it prepares, or until more unrolls come."""
    clocks, gate = (Clock(), Clock()), Event()
    gate.set()
    slow = BackgroundMix(plain_mix(gate=gate), ahead, clocks[0].look, no_upload)
    quick = BackgroundMix(plain_mix(), ahead, clocks[1].look, no_upload)
    prepared += [slow, quick]
    _, number = play(slow, clocks[0], 4)
    play(quick, clocks[1], 4)
    for _ in range(8):
        slow.ready()
        quick.ready()
        assert slow.unrolls_needed() == quick.unrolls_needed()
        for _ in range(slow.unrolls_needed()):
            slow.add(row(number))
            quick.add(row(number))
            number += 1
        gate.clear()
        assert slow.ready() and quick.ready(), "it need not wait for what has only just begun"
        batches = [told(mix.mix(clock.updates)) for mix, clock in zip((slow, quick), clocks, strict=True)]
        assert batches[0] == batches[1]
        for clock in clocks:
            clock.updates += 1
        gate.set()


@settings(deadline=None, max_examples=40)
@given(ahead=st.integers(1, 4), queue=st.booleans(), seed=st.integers(0, 10**6))
def test_room_missing_and_ready_never_stand_still(ahead: int, queue: bool, seed: int) -> None:
    """Workers of random speed, and a learner that comes when it can: either there is room or a batch."""
    clock, rng, number = Clock(), np.random.default_rng(seed), 0
    mix = BackgroundMix(plain_mix(seed, queue), ahead, clock.look, no_upload)
    try:
        while clock.updates < 12:
            ready = mix.ready()
            assert 0 <= mix.unrolls_needed() <= mix.unrolls_accepted()
            assert ready or mix.unrolls_needed() > 0, "the workers wait for the learner and the learner for the workers"
            for _ in range(int(rng.integers(0 if ready else 1, mix.unrolls_accepted() + 1))):
                mix.add(row(number))
                number += 1
            if mix.ready():
                unrolls, _ = told(mix.mix(clock.updates))
                assert len(unrolls) == len(mix.replays) * 2 - 1
                clock.updates += 1
    finally:
        mix.close()


def test_a_batch_stays_as_it_is_until_the_next_one_is_mixed(prepared: list[BackgroundMix]) -> None:
    clock = Clock()
    mix = BackgroundMix(plain_mix(), 2, clock.look, no_upload)
    prepared.append(mix)
    _, number = play(mix, clock, 3)
    for _ in range(12):
        while not mix.ready():
            for _ in range(mix.unrolls_needed()):
                mix.add(row(number))
                number += 1
        batch = mix.mix(clock.updates)
        before = batch.rows.clone()
        clock.updates += 1
        for _ in range(3):  # all that may go on in the background while it is learned from
            mix.ready()
            for _ in range(mix.unrolls_needed()):
                mix.add(row(number))
                number += 1
        assert mix.ready() and len(mix.replays) == 4
        assert torch.equal(batch.rows, before)


def test_an_error_in_the_background_reaches_the_learner(prepared: list[BackgroundMix]) -> None:
    clock, uploads = Clock(), count(1)

    def upload(rows: torch.Tensor) -> torch.Tensor | None:
        if next(uploads) == 4:  # counted here: the learner's clock may go on before the background looks at it
            raise RuntimeError("out of memory")
        return rows + 0

    mix = BackgroundMix(plain_mix(), 1, clock.look, upload)
    prepared.append(mix)
    play(mix, clock, 2)
    with pytest.raises(RuntimeError, match="out of memory"):
        play(mix, clock, 2)


def test_what_was_uploaded_comes_with_the_batch(prepared: list[BackgroundMix]) -> None:
    clock, number = Clock(), 0
    mix = BackgroundMix(plain_mix(), 1, clock.look, lambda rows: rows.clone())
    prepared.append(mix)
    while not mix.ready():
        for _ in range(mix.unrolls_needed()):
            mix.add(row(number))
            number += 1
    batch = mix.mix(0)
    assert batch.uploaded is not None and batch.uploaded is not batch.rows
    assert torch.equal(batch.uploaded, batch.rows)


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("updates", [0, 1, 9])
def test_prepared_batches_are_saved_too(
    prepared: list[BackgroundMix], tmp_path: Path, ahead: int, updates: int
) -> None:
    clocks = Clock(), Clock()
    saved = BackgroundMix(plain_mix(seed=1), ahead, clocks[0].look, no_upload)
    loaded = BackgroundMix(plain_mix(seed=2), ahead, clocks[1].look, no_upload)
    prepared += [saved, loaded]
    _, number = play(saved, clocks[0], updates)
    for _ in range(2):  # there may be one batch more under way, and unrolls that wait for the next
        saved.ready()
        for _ in range(saved.unrolls_needed() // 2):
            saved.add(row(number))
            number += 1
    loaded.load_state_dict(through_a_tensor_file(saved.state_dict(), tmp_path / "replays.bin"))
    clocks[1].updates = clocks[0].updates
    assert [mix.unrolls_accepted() for mix in prepared] == [saved.unrolls_accepted()] * 2
    expected, _ = play(saved, clocks[0], 12, number)
    assert play(loaded, clocks[1], 12, number)[0] == expected


def test_prepared_batches_are_left_out_with_the_queues(prepared: list[BackgroundMix]) -> None:
    clock = Clock()
    saved, loaded = (BackgroundMix(plain_mix(), 2, clock.look, no_upload) for _ in range(2))
    prepared += [saved, loaded]
    _, number = play(saved, clock, 4)
    loaded.load_state_dict(saved.state_dict(), queues_too=False)
    assert loaded.state_dict()["prepared"] == []
    assert [len(replay) for replay in loaded.replays] == [0, 7, 9, 8]
    play(loaded, clock, 4, number)


def test_batches_prepared_by_a_longer_buffer_still_fit_a_shorter_one(prepared: list[BackgroundMix]) -> None:
    clock = Clock()
    saved, loaded = (BackgroundMix(plain_mix(), ahead, clock.look, no_upload) for ahead in (4, 1))
    prepared += [saved, loaded]
    _, number = play(saved, clock, 6)
    loaded.load_state_dict(saved.state_dict())
    play(loaded, clock, 6, number)
