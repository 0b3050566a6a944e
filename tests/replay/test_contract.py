"""What every replay promises, whatever its type, its strategy, its storage and the distances it ranks by."""

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from options.replay_options import ReplaySpec
from replay.protocol import Replay
from replay.ranked import RankedReplay
from tests.replay.any_replay import EVERY_KIND, STORAGES, MakeStorage, ToDistances, make_replay, scattered
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
ranked_kinds = pytest.mark.parametrize("kind", EVERY_KIND[2:], ids=NAMES[2:])
elite_kinds = pytest.mark.parametrize("kind", EVERY_KIND[3:], ids=NAMES[3:])


def spec_of(kind: dict[str, Any], capacity: int, multiplier: float = 1.0) -> ReplaySpec:
    ranked: dict[str, Any] = {} if kind["type"] in ("queue", "standard") else {"lambda_batch_multiplier": multiplier}
    return ReplaySpec(capacity=capacity, sample_ratio=1.0, **kind, **ranked)


def replay_of(
    kind: dict[str, Any], capacity: int, share: int, multiplier: float = 1.0, seed: int = 0, **more: Any
) -> Replay:
    options = spec_of(kind, capacity, multiplier)
    return make_replay(options, share, np.random.default_rng(seed), planned_updates=PLANNED, **more)


def add(replay: Replay, first: int, count: int) -> int:
    """Add as many, or as many as a queue has room for; return the number that comes next."""
    if replay.is_fresh:
        count = min(count, replay.capacity - len(replay))
    for number in range(first, first + count):
        replay.add(row(number))
    return first + count


@every_kind
@every_storage
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_exact_counts_no_double_and_no_torn_row(
    kind: dict[str, Any], make_storage: MakeStorage, data: st.DataObject
) -> None:
    """Rings that wrap round many times, of capacity 1 too, and draws of any part of what they hold, and of all."""
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
        unrolls, told = draw(replay, updates)
        assert len(set(unrolls)) == len(unrolls) == share
        assert max(unrolls) < added
        if kind.get("insert_strategy") != "elite_insertion" and not replay.is_fresh:
            assert min(unrolls) >= added - capacity
        assert told.times_drawn >= 1
        assert 1 <= told.candidates * share <= max(share, len(replay) if not replay.is_fresh else share)


@ranked_kinds
@with_distances
@pytest.mark.parametrize("multiplier", [1.0, 1.5, 6.0, 1000.0])
@pytest.mark.parametrize("degenerate", ["random", "all_equal", "one_never", "huge"])
def test_every_draw_is_whole_whatever_the_distances_and_counters(
    kind: dict[str, Any], distances: ToDistances, multiplier: float, degenerate: str
) -> None:
    capacity, share = 11, 3
    replay = replay_of(kind, capacity, share, multiplier, distances=distances)
    assert isinstance(replay, RankedReplay)
    add(replay, 0, 25)
    times = {
        "random": np.random.default_rng(0).integers(0, 3, capacity),
        "all_equal": np.full(capacity, 7),
        "one_never": (np.arange(capacity) > 0).astype(np.int64) * 1000,
        "huge": np.full(capacity, 2**62),
    }
    replay._times_drawn[:] = times[degenerate]
    for updates in range(4):
        unrolls, told = draw(replay, updates)
        assert len(set(unrolls)) == share
        planned = max(1.0, multiplier - (multiplier - 1) * updates / PLANNED)
        assert told.candidates * share == pytest.approx(min(capacity, max(share, math.floor(planned * share))))
        add(replay, 25 + 2 * updates, 2)


@ranked_kinds
@pytest.mark.parametrize("alfa", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("multiplier", [1.0, 1.3, 2.0, 6.0])
def test_the_multiplier_falls_as_designed(kind: dict[str, Any], alfa: float, multiplier: float) -> None:
    asked: list[int] = []

    def distances(of: list[int]) -> list[float]:
        asked.append(len(of))
        return scattered(of)

    share = 7
    options = ReplaySpec(
        capacity=100, sample_ratio=1.0, lambda_batch_multiplier=multiplier, alfa_annealing_factor=alfa, **kind
    )
    replay = make_replay(options, share, np.random.default_rng(0), planned_updates=PLANNED, distances=distances)
    add(replay, 0, 100)
    for updates in range(int(2.5 * PLANNED)):
        asked.clear()
        _, told = draw(replay, updates)
        factor = max(1.0, multiplier - (multiplier - 1) * updates / (alfa * PLANNED))
        count = max(share, math.floor(factor * share))
        assert asked == ([count] if count > share else []), "at m = n nothing is ranked"
        assert told.candidates * share == pytest.approx(count)
        assert (told.distance_drawn is None) == (told.distance_candidates is None) == (not asked)


@ranked_kinds
def test_a_draw_tells_the_distances_it_went_by(kind: dict[str, Any]) -> None:
    seen: list[float] = []

    def distances(of: list[int]) -> list[float]:
        seen[:] = scattered(of)
        return seen

    replay = replay_of(kind, 40, 4, 5.0, distances=distances)
    add(replay, 0, 60)
    for _ in range(5):
        unrolls, told = draw(replay)
        assert len(seen) == 20
        assert told.distance_candidates == pytest.approx(np.mean(seen))
        assert told.distance_drawn == pytest.approx(np.mean(scattered(unrolls)))


@pytest.mark.parametrize("kind", [EVERY_KIND[2], EVERY_KIND[3]], ids=["attentive", "elite-lowest"])
def test_the_nearest_of_all_are_drawn_where_all_are_candidates(kind: dict[str, Any]) -> None:
    replay = replay_of(kind, 30, 5, 1000.0)
    added = add(replay, 0, 45)
    for _ in range(3):
        nearest = sorted(range(added - 30, added), key=lambda number: scattered([number]))[:5]
        assert drawn(replay) == nearest
        added = add(replay, added, 11)


@pytest.mark.parametrize("kind", EVERY_KIND[1:], ids=NAMES[1:])
@pytest.mark.parametrize("multiplier", [1.0, 3.0])
def test_it_counts_how_often_each_unroll_was_drawn(kind: dict[str, Any], multiplier: float) -> None:
    replay = replay_of(kind, 6, 2, multiplier)
    add(replay, 0, 6)
    times = dict.fromkeys(range(6), 0)
    for _ in range(20):
        unrolls, told = draw(replay)
        for number in unrolls:
            times[number] += 1
        assert told.times_drawn == np.mean([times[number] for number in unrolls])
    assert counts(replay).tolist() == list(times.values())
    replay.add(row(6))
    assert sorted(counts(replay))[0] == 0, "a new unroll was never drawn"


@pytest.mark.parametrize("kind", [k for k in EVERY_KIND if k.get("elite_sampling_strategy") == "lowest_least_sampled"])
def test_least_sampled_first_gives_everyone_a_turn(kind: dict[str, Any]) -> None:
    replay = replay_of(kind, 12, 3, 1000.0)
    add(replay, 0, 12)
    for turn in range(1, 4):
        # λ falls so slowly here that all are candidates each time.
        assert sorted(number for _ in range(4) for number in drawn(replay)) == list(range(12))
        assert (counts(replay) == turn).all()


@every_kind
@every_storage
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_a_restored_replay_goes_on_like_the_saved_one(
    kind: dict[str, Any], make_storage: MakeStorage, data: st.DataObject
) -> None:
    """By either kind of file; the restored one was made with other seeds, and held other rows."""
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
            assert all(one == draws[0] for one in draws)
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
def test_one_seed_draws_alike_and_another_does_not(kind: dict[str, Any]) -> None:
    same, again, other = (replay_of(kind, 40, 8, 1.5, seed) for seed in (1, 1, 2))
    for replay in (same, again, other):
        add(replay, 0, 40)
    first = [drawn(same, updates) for updates in range(3)]
    assert [drawn(again, updates) for updates in range(3)] == first
    assert ([drawn(other, updates) for updates in range(3)] == first) == same.is_fresh


# --- Elite insertion --------------------------------------------------------------------------------------------------

INSERTING = [kind for kind in EVERY_KIND if kind.get("insert_strategy") == "elite_insertion"]


def no_ranking(of: list[int]) -> list[float]:
    raise AssertionError("ranked while adding")


@pytest.mark.parametrize("looked_at", [1, 3, 8, 20])
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), ties=st.booleans())
def test_a_new_unroll_replaces_the_most_drifted_of_some(looked_at: int, seed: int, ties: bool) -> None:
    """Held against a slow account that makes the same random choices: of those drawn, by what is remembered of them."""
    capacity, share = 8, 2

    def distances(of: list[int]) -> list[float]:
        return [number % 3 if ties else scattered([number])[0] for number in of]

    kind = {**INSERTING[0], "elite_batch_size": looked_at}
    replay = replay_of(kind, capacity, share, 3.0, seed, distances=distances)
    twin = np.random.default_rng(seed)
    held = list(range(capacity))  # by place in the storage
    remembered = dict.fromkeys(held, 0.0)
    add(replay, 0, capacity)
    for number in range(capacity, capacity + 40):
        candidates = [held[place] for place in twin.choice(capacity, 6, replace=False)]
        remembered |= dict(zip(candidates, distances(candidates), strict=True))
        drawn(replay)
        among = [held[place] for place in twin.choice(capacity, min(looked_at, capacity), replace=False)]
        replaced = max(among, key=lambda old: (remembered[old], -old))  # of equals, the oldest
        held[held.index(replaced)] = number
        remembered[number] = 0.0
        replay.add(row(number))
        assert stored(replay) == held


def stored(replay: Replay) -> list[int]:
    rows = np.zeros((len(replay), LAYOUT.nbytes), np.uint8)
    replay._storage.copy_to(np.arange(len(replay)), rows)  # type: ignore[attr-defined]
    return numbers(rows)


@pytest.mark.parametrize("kind", INSERTING, ids=lambda kind: kind["elite_sampling_strategy"])
def test_adding_never_ranks(kind: dict[str, Any]) -> None:
    replay = replay_of(kind, 5, 2, 6.0, distances=no_ranking)
    add(replay, 0, 40)
    assert len(replay) == 5
    with pytest.raises(AssertionError, match="ranked while adding"):
        drawn(replay)


@pytest.mark.parametrize("kind", INSERTING, ids=lambda kind: kind["elite_sampling_strategy"])
def test_what_has_no_distance_is_given_up_first(kind: dict[str, Any]) -> None:
    """NaN is farther than any other distance, also where it is remembered."""
    replay = replay_of(
        {**kind, "elite_batch_size": 6}, 6, 1, 1000.0, distances=lambda of: [math.nan, *range(len(of) - 1)]
    )
    add(replay, 0, 6)
    order = np.random.default_rng(0).choice(6, 6, replace=False)
    drawn(replay)
    replay.add(row(6))
    assert order[0] not in stored(replay)


@every_kind
def test_without_elite_insertion_the_oldest_make_room(kind: dict[str, Any]) -> None:
    if kind["type"] == "queue" or kind in INSERTING:
        return
    replay = replay_of(kind, 5, 2, 2.0)
    for number in range(17):
        replay.add(row(number))
        if number >= 2:
            drawn(replay)
        assert sorted(stored(replay)) == list(range(max(0, number - 4), number + 1))
