"""Batches mixed in the background are equal to those mixed on demand some updates earlier."""

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
from replay.mix import Batch, BatchMix, MixAhead, Replay
from tests.replay.any_replay import make_replay, scattered
from tests.replay.numbered_rows import LAYOUT, numbers, row, through_a_tensor_file

Content = tuple[list[int], list[float]]  # the numbers of the unrolls, and the figures of the draws without times


class Clock:
    """Counts the learner's updates."""

    updates = 0

    def now(self) -> int:
        return self.updates


def no_upload(rows: torch.Tensor) -> torch.Tensor | None:
    return None


def plain_mix(seed: int = 0, queue: bool = True, gate: Event | None = None) -> BatchMix:
    """A queue and three other replays, two of which rank. With a gate, rankings wait until it is open."""

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
            spec, share, np.random.default_rng(child), warmup_unrolls=5, planned_updates=12, distances=distances
        )
        for (spec, share), child in zip(specs, seeds, strict=True)
    ]
    return BatchMix(replays, LAYOUT)


def content_of(batch: Batch) -> Content:
    figures = [float(-1 if figure is None else figure) for draw in batch.draws for figure in draw[:-1]]
    return numbers(batch.rows.numpy()), figures


@pytest.fixture
def opened() -> Iterator[list[MixAhead]]:
    """Mixes to close after the test."""
    mixes: list[MixAhead] = []
    yield mixes
    for mix in mixes:
        mix.close()


def play(mix: MixAhead, clock: Clock, updates: int, first: int = 0) -> tuple[list[Content], int]:
    """The training loop in lockstep: it takes no unroll before the mix needs it."""
    contents: list[Content] = []
    number = first
    while len(contents) < updates:
        mix.ready()
        for _ in range(mix.unrolls_needed()):
            mix.add(row(number))
            number += 1
        if mix.ready():
            contents.append(content_of(mix.mix(clock.updates)))
            clock.updates += 1
    return contents, number


@pytest.mark.parametrize("queue", [True, False])
@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_each_batch_equals_the_one_drawn_some_updates_earlier(opened: list[MixAhead], ahead: int, queue: bool) -> None:
    clock = Clock()
    mix = MixAhead(plain_mix(queue=queue), ahead, clock.now, no_upload)
    opened.append(mix)
    batches, number = play(mix, clock, 20)
    plain, expected, added = plain_mix(queue=queue), [], 0
    for update in range(20):
        while not plain.ready():
            for _ in range(plain.unrolls_needed()):
                plain.add(row(added))
                added += 1
        expected.append(content_of(plain.mix(max(0, update - ahead))))
    assert batches == expected
    assert number >= added


@pytest.mark.parametrize("ahead", [1, 3])
def test_a_slow_background_changes_nothing(opened: list[MixAhead], ahead: int) -> None:
    """Its draws wait until the learner takes a batch or more unrolls are added."""
    clocks, gate = (Clock(), Clock()), Event()
    gate.set()
    slow = MixAhead(plain_mix(gate=gate), ahead, clocks[0].now, no_upload)
    quick = MixAhead(plain_mix(), ahead, clocks[1].now, no_upload)
    opened += [slow, quick]
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
        assert slow.ready() and quick.ready(), "`ready` must not wait for a draw that has just started"
        batches = [content_of(mix.mix(clock.updates)) for mix, clock in zip((slow, quick), clocks, strict=True)]
        assert batches[0] == batches[1]
        for clock in clocks:
            clock.updates += 1
        gate.set()


@settings(deadline=None, max_examples=15)
@given(ahead=st.integers(1, 4), queue=st.booleans(), seed=st.integers(0, 10**6))
def test_there_is_no_deadlock(ahead: int, queue: bool, seed: int) -> None:
    """With workers of random speed, the mix always needs unrolls or has a batch."""
    clock, rng, number = Clock(), np.random.default_rng(seed), 0
    mix = MixAhead(plain_mix(seed, queue), ahead, clock.now, no_upload)
    try:
        while clock.updates < 12:
            ready = mix.ready()
            assert 0 <= mix.unrolls_needed() <= mix.unrolls_accepted()
            assert ready or mix.unrolls_needed() > 0, "workers and learner wait for each other"
            for _ in range(int(rng.integers(0 if ready else 1, mix.unrolls_accepted() + 1))):
                mix.add(row(number))
                number += 1
            if mix.ready():
                unrolls, _ = content_of(mix.mix(clock.updates))
                assert len(unrolls) == len(mix.replays) * 2 - 1
                clock.updates += 1
    finally:
        mix.close()


def test_a_batch_does_not_change_before_the_next_one(opened: list[MixAhead]) -> None:
    clock = Clock()
    mix = MixAhead(plain_mix(), 2, clock.now, no_upload)
    opened.append(mix)
    _, number = play(mix, clock, 3)
    for _ in range(12):
        while not mix.ready():
            for _ in range(mix.unrolls_needed()):
                mix.add(row(number))
                number += 1
        batch = mix.mix(clock.updates)
        before = batch.rows.clone()
        clock.updates += 1
        for _ in range(3):  # all that can happen in the background during an update
            mix.ready()
            for _ in range(mix.unrolls_needed()):
                mix.add(row(number))
                number += 1
        assert mix.ready() and len(mix.replays) == 4
        assert torch.equal(batch.rows, before)


def test_an_error_in_the_background_reaches_the_learner(opened: list[MixAhead]) -> None:
    clock, uploads = Clock(), count(1)

    def upload(rows: torch.Tensor) -> torch.Tensor | None:
        if next(uploads) == 4:  # the clock may be ahead of the background thread
            raise RuntimeError("out of memory")
        return rows + 0

    mix = MixAhead(plain_mix(), 1, clock.now, upload)
    opened.append(mix)
    play(mix, clock, 2)
    with pytest.raises(RuntimeError, match="out of memory"):
        play(mix, clock, 2)


def test_after_an_error_in_the_background_a_run_can_save_and_report(opened: list[MixAhead]) -> None:
    clock, uploads = Clock(), count(1)

    def upload(rows: torch.Tensor) -> torch.Tensor | None:
        if next(uploads) >= 4:
            raise RuntimeError("out of memory")
        return None

    mix = MixAhead(plain_mix(), 1, clock.now, upload)
    opened.append(mix)
    with pytest.raises(RuntimeError, match="out of memory"):
        play(mix, clock, 6)
    assert len(mix.replays) == 4
    assert len(mix.state_dict()["prepared"]) < 2, "the batch that failed is left out"


def test_the_uploaded_copy_is_part_of_the_batch(opened: list[MixAhead]) -> None:
    clock, number = Clock(), 0
    mix = MixAhead(plain_mix(), 1, clock.now, lambda rows: rows.clone())
    opened.append(mix)
    while not mix.ready():
        for _ in range(mix.unrolls_needed()):
            mix.add(row(number))
            number += 1
    batch = mix.mix(0)
    assert batch.uploaded is not None and batch.uploaded is not batch.rows
    assert torch.equal(batch.uploaded, batch.rows)


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("updates", [0, 1, 9])
def test_ready_batches_are_saved(opened: list[MixAhead], tmp_path: Path, ahead: int, updates: int) -> None:
    clocks = Clock(), Clock()
    saved = MixAhead(plain_mix(seed=1), ahead, clocks[0].now, no_upload)
    loaded = MixAhead(plain_mix(seed=2), ahead, clocks[1].now, no_upload)
    opened += [saved, loaded]
    _, number = play(saved, clocks[0], updates)
    for _ in range(2):  # another draw may run, with unrolls for the one after it
        saved.ready()
        for _ in range(saved.unrolls_needed() // 2):
            saved.add(row(number))
            number += 1
    loaded.load_state_dict(through_a_tensor_file(saved.state_dict(), tmp_path / "replays.bin"))
    clocks[1].updates = clocks[0].updates
    assert [mix.unrolls_accepted() for mix in opened] == [saved.unrolls_accepted()] * 2
    expected, _ = play(saved, clocks[0], 12, number)
    assert play(loaded, clocks[1], 12, number)[0] == expected


def test_ready_batches_are_not_loaded_without_the_queues(opened: list[MixAhead]) -> None:
    clock = Clock()
    saved, loaded = (MixAhead(plain_mix(), 2, clock.now, no_upload) for _ in range(2))
    opened += [saved, loaded]
    _, number = play(saved, clock, 4)
    loaded.load_state_dict(saved.state_dict(), with_queues=False)
    assert loaded.state_dict()["prepared"] == []
    assert [len(replay) for replay in loaded.replays] == [0, 7, 9, 8]
    play(loaded, clock, 4, number)


def test_batches_of_a_longer_buffer_are_all_used_with_a_shorter_one(opened: list[MixAhead]) -> None:
    clock = Clock()
    saved, loaded = (MixAhead(plain_mix(), ahead, clock.now, no_upload) for ahead in (4, 1))
    opened += [saved, loaded]
    _, number = play(saved, clock, 6)
    loaded.load_state_dict(saved.state_dict())
    ready = len(saved.state_dict()["prepared"])
    assert ready > 2, "more than the shorter buffer keeps ready"
    expected, _ = play(saved, clock, ready, number)
    assert play(loaded, clock, 12, number)[0][:ready] == expected
