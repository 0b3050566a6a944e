"""What every replay guarantees, for every type, strategy, storage and distance."""

import math
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from options.replay_options import ReplaySpec
from replay.mix import Replay
from replay.row_layout import array_to_bytes
from replay.storage import Storage
from tests.replay.any_replay import EVERY_KIND, STORAGES, MakeStorage, ToDistances, make_replay, raw, scattered
from tests.replay.numbered_rows import LAYOUT, counts, draw, drawn, numbers, row, through_a_file, through_a_tensor_file

NAMES = ["-".join(str(value) for value in kind.values()) for kind in EVERY_KIND]
PLANNED = 10
DISTANCES: dict[str, ToDistances] = {
    "scattered": scattered,
    "equal": lambda of: [0.5] * len(of),
    "nan": lambda of: [math.nan] * len(of),
    "infinite": lambda of: [math.inf] * len(of),
    "mixed": lambda of: [(0.0, math.nan, math.inf, 1.0)[number % 4] for number in of],
}
every_kind = pytest.mark.parametrize("kind", EVERY_KIND, ids=NAMES)
every_storage = pytest.mark.parametrize("make_storage", STORAGES)
with_distances = pytest.mark.parametrize("distances", DISTANCES.values(), ids=DISTANCES)
attentive_and_elite = pytest.mark.parametrize("kind", EVERY_KIND[2:4], ids=NAMES[2:4])
ranked_kinds = pytest.mark.parametrize("kind", EVERY_KIND[2:], ids=NAMES[2:])
INSERTING = EVERY_KIND[-1]


def spec_of(kind: dict[str, Any], capacity: int, multiplier: float = 1.0) -> ReplaySpec:
    ranked: dict[str, Any] = {} if kind["type"] in ("queue", "standard") else {"lambda_batch_multiplier": multiplier}
    return ReplaySpec(capacity=capacity, sample_ratio=1.0, **kind, **ranked)


def replay_of(
    kind: dict[str, Any], capacity: int, share: int, multiplier: float = 1.0, seed: int = 0, **more: Any
) -> Replay:
    options = spec_of(kind, capacity, multiplier)
    return make_replay(options, share, np.random.default_rng(seed), planned_updates=PLANNED, **more)


def add(replay: Replay, first: int, count: int) -> int:
    """Add `count` unrolls, to a queue at most as many as it accepts; return the next number."""
    if replay.is_fresh:
        count = min(count, replay.capacity - len(replay))
    for number in range(first, first + count):
        replay.add(row(number))
    return first + count


@every_kind
@every_storage
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_a_draw_gives_exactly_its_share_of_different_unrolls(
    kind: dict[str, Any], make_storage: MakeStorage, data: st.DataObject
) -> None:
    """Capacities from 1, replaced many times over, and shares up to the whole capacity."""
    capacity = data.draw(st.integers(1, 8))
    share = data.draw(st.integers(1, capacity))
    multiplier = data.draw(st.sampled_from([1.0, 1.5, 6.0, 1000.0]))
    distances = data.draw(st.sampled_from(list(DISTANCES.values())))
    replay = replay_of(kind, capacity, share, multiplier, distances=distances, make_storage=make_storage)
    assert (len(replay), replay.capacity, replay.share, replay.unrolls_needed()) == (0, capacity, share, share)
    added = 0
    for updates in range(data.draw(st.integers(1, 6))):
        before = len(replay)
        now = add(replay, added, data.draw(st.integers(0, 12)))
        assert len(replay) == min(before + now - added, capacity)
        added = now
        assert replay.unrolls_needed() == max(0, share - len(replay))
        if replay.unrolls_needed():
            continue
        unrolls, figures = draw(replay, updates)
        assert len(set(unrolls)) == len(unrolls) == share
        assert max(unrolls) < added
        if kind.get("insert_strategy") != "elite_insertion" and not replay.is_fresh:
            assert min(unrolls) >= added - capacity
        assert figures.times_drawn >= 1
        assert 1 <= figures.candidates * share <= max(share, len(replay) if not replay.is_fresh else share)


@ranked_kinds
@with_distances
def test_a_draw_gives_its_share_for_all_distances_and_counters(kind: dict[str, Any], distances: ToDistances) -> None:
    capacity, share = 11, 3
    counters = (
        np.random.default_rng(0).integers(0, 3, capacity),
        np.full(capacity, 7),
        (np.arange(capacity) > 0).astype(np.int64) * 1000,
        np.full(capacity, 2**62),
    )
    for times_drawn, multiplier in product(counters, (1.5, 1000.0)):
        replay = replay_of(kind, capacity, share, multiplier, distances=distances)
        add(replay, 0, 25)
        replay.load_state_dict({**replay.state_dict(), "times_drawn": array_to_bytes(times_drawn)})
        assert_draws_are_complete(replay, multiplier)


def assert_draws_are_complete(replay: Replay, multiplier: float) -> None:
    capacity, share = replay.capacity, replay.share
    for updates in range(4):
        unrolls, figures = draw(replay, updates)
        assert len(set(unrolls)) == share
        planned = max(1.0, multiplier - (multiplier - 1) * updates / PLANNED)
        assert figures.candidates * share == pytest.approx(min(capacity, max(share, math.floor(planned * share))))
        add(replay, 25 + 2 * updates, 2)


@attentive_and_elite
@pytest.mark.parametrize(("alfa", "multiplier"), [(0.5, 6.0), (1.0, 1.0), (1.0, 1.3), (2.0, 2.0)])
def test_the_multiplier_falls_linearly_to_1(kind: dict[str, Any], alfa: float, multiplier: float) -> None:
    ranked: list[int] = []

    def distances(of: list[int]) -> list[float]:
        ranked.append(len(of))
        return scattered(of)

    share = 7
    options = ReplaySpec(
        capacity=100, sample_ratio=1.0, lambda_batch_multiplier=multiplier, alfa_annealing_factor=alfa, **kind
    )
    replay = make_replay(options, share, np.random.default_rng(0), planned_updates=PLANNED, distances=distances)
    add(replay, 0, 100)
    for updates in range(int(2.5 * PLANNED)):
        ranked.clear()
        _, figures = draw(replay, updates)
        factor = max(1.0, multiplier - (multiplier - 1) * updates / (alfa * PLANNED))
        count = max(share, math.floor(factor * share))
        assert ranked == ([count] if count > share else []), "nothing is ranked without a choice"
        assert figures.candidates * share == pytest.approx(count)
        assert (figures.distance_drawn is None) == (figures.distance_candidates is None) == (not ranked)


@ranked_kinds
def test_a_draw_reports_the_distances_of_its_candidates(kind: dict[str, Any]) -> None:
    seen: list[float] = []

    def distances(of: list[int]) -> list[float]:
        seen[:] = scattered(of)
        return seen

    replay = replay_of(kind, 40, 4, 5.0, distances=distances)
    add(replay, 0, 60)
    for _ in range(5):
        unrolls, figures = draw(replay)
        assert len(seen) == 20
        assert figures.distance_candidates == pytest.approx(np.mean(seen))
        assert figures.distance_drawn == pytest.approx(np.mean(scattered(unrolls)))


@attentive_and_elite
def test_the_nearest_are_drawn_if_all_unrolls_are_candidates(kind: dict[str, Any]) -> None:
    replay = replay_of(kind, 30, 5, 1000.0)
    added = add(replay, 0, 45)
    for _ in range(3):
        nearest = sorted(range(added - 30, added), key=lambda number: scattered([number]))[:5]
        assert drawn(replay) == nearest
        added = add(replay, added, 11)


@pytest.mark.parametrize("kind", EVERY_KIND[1:], ids=NAMES[1:])
def test_it_counts_how_often_each_unroll_was_drawn(kind: dict[str, Any]) -> None:
    replay = replay_of(kind, 6, 2, 3.0)
    add(replay, 0, 6)
    times = dict.fromkeys(range(6), 0)
    for _ in range(20):
        unrolls, figures = draw(replay)
        for number in unrolls:
            times[number] += 1
        assert figures.times_drawn == np.mean([times[number] for number in unrolls])
    assert counts(replay).tolist() == list(times.values())
    replay.add(row(6))
    assert sorted(counts(replay))[0] == 0, "a new unroll counts as never drawn"


def test_lowest_least_sampled_draws_all_unrolls_equally_often() -> None:
    replay = replay_of({"type": "elite", "elite_sampling_strategy": "lowest_least_sampled"}, 12, 3, 1000.0)
    add(replay, 0, 12)
    for turn in range(1, 4):
        # λ stays so large that all unrolls are candidates.
        assert sorted(number for _ in range(4) for number in drawn(replay)) == list(range(12))
        assert (counts(replay) == turn).all()


@every_kind
@every_storage
@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_a_loaded_replay_continues_like_the_saved_one(
    kind: dict[str, Any], make_storage: MakeStorage, data: st.DataObject
) -> None:
    """With both kinds of file. The loaded replay was made with another seed and held other unrolls."""
    capacity = data.draw(st.integers(1, 9))
    share = data.draw(st.integers(1, capacity))
    multiplier = data.draw(st.sampled_from([1.0, 1.5, 6.0]))
    saved, loaded = (replay_of(kind, capacity, share, multiplier, seed, make_storage=make_storage) for seed in (1, 2))
    add(loaded, 500, data.draw(st.integers(0, capacity)))
    added, updates = 0, 0

    def play(*replays: Replay) -> None:
        nonlocal added, updates
        before = added
        count = data.draw(st.integers(0, 8))
        for replay in replays:
            added = add(replay, before, count)
        if not saved.unrolls_needed():
            draws = [draw(replay, updates) for replay in replays]
            assert all(other == draws[0] for other in draws)
            updates += 1

    for _ in range(data.draw(st.integers(0, 4))):
        play(saved)
    if data.draw(st.booleans()):
        loaded.load_state_dict(through_a_file(saved.state_dict()))
    else:
        with TemporaryDirectory() as folder:
            loaded.load_state_dict(through_a_tensor_file(saved.state_dict(), Path(folder) / "replays.bin"))
    assert (len(loaded), loaded.unrolls_needed()) == (len(saved), saved.unrolls_needed())
    for _ in range(4):
        play(saved, loaded)
    assert_same_state(saved.state_dict(), loaded.state_dict())


def assert_same_state(first: Any, second: Any) -> None:
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_same_state(first[key], second[key])
    elif hasattr(first, "numpy"):
        np.testing.assert_array_equal(first.numpy(), second.numpy())
    else:
        assert first == second


@every_kind
def test_saving_changes_nothing(kind: dict[str, Any]) -> None:
    saved, untouched = (replay_of(kind, 9, 4, 2.0) for _ in range(2))
    for replay in (saved, untouched):
        add(replay, 0, 9)
    saved.state_dict()
    assert draw(saved) == draw(untouched)


@every_kind
def test_draws_depend_on_the_seed_only(kind: dict[str, Any]) -> None:
    same, again, other = (replay_of(kind, 40, 8, 1.5, seed) for seed in (1, 1, 2))
    for replay in (same, again, other):
        add(replay, 0, 40)
    first = [drawn(same, updates) for updates in range(3)]
    assert [drawn(again, updates) for updates in range(3)] == first
    assert ([drawn(other, updates) for updates in range(3)] == first) == same.is_fresh


# --- Elite insertion --------------------------------------------------------------------------------------------------


def no_ranking(of: list[int]) -> list[float]:
    raise AssertionError("ranked while adding")


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), ties=st.booleans(), count=st.sampled_from([1, 3, 8, 20]))
@pytest.mark.slow
def test_elite_insertion_replaces_the_most_drifted_of_some(seed: int, ties: bool, count: int) -> None:
    """Compared with a slow version that makes the same random choices."""
    capacity, share = 8, 2

    def distances(of: list[int]) -> list[float]:
        return [number % 3 if ties else scattered([number])[0] for number in of]

    storage = raw(capacity)
    kind = {**INSERTING, "elite_batch_size": count}
    replay = replay_of(kind, capacity, share, 3.0, seed, distances=distances, make_storage=lambda _: storage)
    twin = np.random.default_rng(seed)
    held = list(range(capacity))  # by index in the storage
    drifts = dict.fromkeys(held, 0.0)
    add(replay, 0, capacity)
    for number in range(capacity, capacity + 40):
        candidates = [held[index] for index in twin.choice(capacity, 6, replace=False)]
        drifts |= dict(zip(candidates, distances(candidates), strict=True))
        drawn(replay)
        some = [held[index] for index in twin.choice(capacity, min(count, capacity), replace=False)]
        replaced = max(some, key=lambda old: (drifts[old], -old))  # of equals, the oldest
        held[held.index(replaced)] = number
        drifts[number] = 0.0
        replay.add(row(number))
        assert stored(storage, capacity) == held


def stored(storage: Storage, count: int) -> list[int]:
    rows = np.zeros((count, LAYOUT.nbytes), np.uint8)
    storage.copy_to(np.arange(count), rows)
    return numbers(rows)


def test_adding_never_ranks() -> None:
    replay = replay_of(INSERTING, 5, 2, 6.0, distances=no_ranking)
    add(replay, 0, 40)
    assert len(replay) == 5
    with pytest.raises(AssertionError, match="ranked while adding"):
        drawn(replay)


def test_elite_insertion_replaces_an_unroll_whose_distance_is_nan_first() -> None:
    storage = raw(6)
    replay = replay_of(
        {**INSERTING, "elite_batch_size": 6},
        6,
        1,
        1000.0,
        distances=lambda of: [math.nan, *range(len(of) - 1)],
        make_storage=lambda _: storage,
    )
    add(replay, 0, 6)
    order = np.random.default_rng(0).choice(6, 6, replace=False)
    drawn(replay)
    replay.add(row(6))
    assert order[0] not in stored(storage, 6)


@pytest.mark.parametrize("kind", EVERY_KIND[1:-1], ids=NAMES[1:-1])
def test_without_elite_insertion_the_oldest_unroll_is_replaced(kind: dict[str, Any]) -> None:
    storage = raw(5)
    replay = replay_of(kind, 5, 2, 2.0, make_storage=lambda _: storage)
    for number in range(17):
        replay.add(row(number))
        if number >= 2:
            drawn(replay)
        assert sorted(stored(storage, len(replay))) == list(range(max(0, number - 4), number + 1))
