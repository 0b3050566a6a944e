"""A standard replay: uniform draws without replacement from the newest unrolls."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.replay_buffer import ReplayBuffer, ReplayRules
from replay.storage import RawStorage
from tests.replay.numbered_rows import NBYTES, drawn, row


def replay_with(
    capacity: int, share: int, count: int, seed: int = 0, warmup_unrolls: int | None = None
) -> ReplayBuffer:
    rng = np.random.default_rng(seed)
    warmup_unrolls = share if warmup_unrolls is None else warmup_unrolls
    replay = ReplayBuffer("standard", RawStorage(capacity, NBYTES), ReplayRules(), share, warmup_unrolls, rng)
    for number in range(count):
        replay.add(row(number))
    return replay


@settings(deadline=None)
@given(st.data())
def test_a_draw_is_without_replacement_from_the_newest(data: st.DataObject) -> None:
    capacity = data.draw(st.integers(1, 8))
    share = data.draw(st.integers(1, capacity))
    added = data.draw(st.integers(share, 25))
    replay = replay_with(capacity, share, added, seed=data.draw(st.integers(0, 1000)))
    assert len(replay) == min(added, capacity)
    for _ in range(3):
        unrolls = drawn(replay)
        assert len(set(unrolls)) == share
        assert set(unrolls) <= set(range(max(0, added - capacity), added))


def test_every_unroll_is_equally_likely_at_every_index_of_the_batch() -> None:
    draws, kept, share = 3000, 7, 3
    replay = replay_with(kept, share, count=10)
    counts = [Counter(index) for index in zip(*(drawn(replay) for _ in range(draws)), strict=True)]
    expected = draws / kept
    for index in counts:
        # 6 degrees of freedom: the sum of a fair draw is above 40 less than once in a million.
        assert sum((index[number] - expected) ** 2 / expected for number in range(3, 10)) < 40


def test_every_pair_is_equally_likely() -> None:
    draws = 3000
    replay = replay_with(5, 2, count=5)
    pairs = Counter(frozenset(drawn(replay)) for _ in range(draws))
    expected = draws / 10
    assert len(pairs) == 10
    assert sum((count - expected) ** 2 / expected for count in pairs.values()) < 50  # 9 degrees of freedom


@pytest.mark.parametrize(("warmup", "count", "needed"), [(4, 0, 4), (4, 3, 1), (4, 4, 0), (4, 9, 0), (6, 9, 0)])
def test_it_needs_its_warmup_unrolls_before_the_first_draw(warmup: int, count: int, needed: int) -> None:
    assert replay_with(6, 2, count, warmup_unrolls=warmup).unrolls_needed() == needed


def test_a_standard_replay_is_not_fresh() -> None:
    assert (replay_with(2, 1, 0).is_fresh, replay_with(2, 1, 0).name) == (False, "standard")
