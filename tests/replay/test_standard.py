from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.standard import StandardReplay
from replay.storage import RawStorage
from tests.replay.numbered_rows import NBYTES, drawn, row, through_a_file


def replay_with(capacity: int, share: int, count: int, seed: int = 0) -> StandardReplay:
    replay = StandardReplay(RawStorage(capacity, NBYTES), share, share, np.random.default_rng(seed))
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


def test_every_unroll_is_as_likely_as_any_other_at_every_place() -> None:
    draws, kept, share = 6000, 7, 3
    replay = replay_with(kept, share, count=10)
    counts = [Counter(place) for place in zip(*(drawn(replay) for _ in range(draws)), strict=True)]
    expected = draws / kept
    for place in counts:
        # 6 degrees of freedom: a fair draw lies above 40 less than once in a million.
        assert sum((place[number] - expected) ** 2 / expected for number in range(3, 10)) < 40


def test_all_pairs_are_drawn_alike() -> None:
    draws = 4000
    replay = replay_with(5, 2, count=5)
    pairs = Counter(frozenset(drawn(replay)) for _ in range(draws))
    expected = draws / 10
    assert len(pairs) == 10
    assert sum((count - expected) ** 2 / expected for count in pairs.values()) < 50  # 9 degrees of freedom


@pytest.mark.parametrize(("fill", "count", "missing"), [(4, 0, 4), (4, 3, 1), (4, 4, 0), (4, 9, 0), (6, 9, 0)])
def test_it_needs_to_be_filled_before_it_gives(fill: int, count: int, missing: int) -> None:
    replay = StandardReplay(RawStorage(6, NBYTES), 2, fill, np.random.default_rng(0))
    for number in range(count):
        replay.add(row(number))
    assert replay.unrolls_needed() == missing


def test_the_seed_decides_the_draws() -> None:
    same, again, other = (replay_with(50, 5, 50, seed) for seed in (1, 1, 2))
    first = [drawn(same) for _ in range(4)]
    assert [drawn(again) for _ in range(4)] == first
    assert [drawn(other) for _ in range(4)] != first


@pytest.mark.parametrize("added", [5, 8, 29])
def test_a_loaded_replay_draws_on_like_the_saved_one(added: int) -> None:
    saved = replay_with(8, 3, added, seed=1)
    drawn(saved)
    loaded = replay_with(8, 3, 2, seed=2)
    loaded.load_state_dict(through_a_file(saved.state_dict()))
    for number in range(added, added + 6):
        assert drawn(loaded) == drawn(saved)
        saved.add(row(number))
        loaded.add(row(number))
    assert drawn(loaded) == drawn(saved)


def test_saving_does_not_change_the_next_draw() -> None:
    saved, untouched = replay_with(9, 4, 9), replay_with(9, 4, 9)
    saved.state_dict()
    assert drawn(saved) == drawn(untouched)


def test_a_standard_replay_is_replayed() -> None:
    assert (replay_with(2, 1, 0).is_fresh, replay_with(2, 1, 0).name) == (False, "standard")
