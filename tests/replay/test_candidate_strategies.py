import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from replay.replay_buffer import STRATEGIES, Strategy

HUGE = 2**63 - 1


class Candidate(NamedTuple):
    number: int
    distance: float
    times_drawn: int
    order: int


Candidates = list[Candidate]


def nearness(candidate: Candidate) -> tuple[bool, float, int]:
    """The sort key of nearness; the older of two equally near candidates comes first."""
    unknown = math.isnan(candidate.distance)
    return unknown, 0.0 if unknown else candidate.distance, candidate.order


def rarity(candidate: Candidate) -> tuple[int, bool, float, int]:
    return candidate.times_drawn, *nearness(candidate)


def strata(candidates: Candidates, n: int) -> list[Candidates]:
    ranked, m = sorted(candidates, key=nearness), len(candidates)
    return [ranked[math.floor(i * m / n) : math.floor((i + 1) * m / n)] for i in range(n)]


def slow_lowest(candidates: Candidates, n: int) -> Candidates:
    return sorted(candidates, key=nearness)[:n]


def slow_stratified(candidates: Candidates, n: int) -> Candidates:
    return [min(stratum, key=nearness) for stratum in strata(candidates, n)]


def slow_lowest_least_sampled(candidates: Candidates, n: int) -> Candidates:
    return sorted(candidates, key=rarity)[:n]


def slow_stratified_least_sampled(candidates: Candidates, n: int) -> Candidates:
    return [min(stratum, key=rarity) for stratum in strata(candidates, n)]


SLOW: dict[str, Callable[[Candidates, int], Candidates]] = {
    "lowest": slow_lowest,
    "stratified": slow_stratified,
    "lowest_least_sampled": slow_lowest_least_sampled,
    "stratified_least_sampled": slow_stratified_least_sampled,
}


def make(distances: list[float], times_drawn: list[int], order: list[int]) -> Candidates:
    return [Candidate(*fields) for fields in zip(range(len(order)), distances, times_drawn, order, strict=True)]


def take(strategy: Strategy, candidates: Candidates, n: int) -> list[int]:
    distances = np.array([candidate.distance for candidate in candidates], dtype=np.float64)
    times_drawn = np.array([candidate.times_drawn for candidate in candidates], dtype=np.int64)
    order = np.array([candidate.order for candidate in candidates], dtype=np.int64)
    before = [array.copy() for array in (distances, times_drawn, order)]
    indices = strategy(distances, times_drawn, order, n)
    for array, copy in zip((distances, times_drawn, order), before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert indices.dtype == np.int64
    return [int(index) for index in indices]


# Each list is drawn from one of these, so that ties are frequent.
DISTANCES = [
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 1.0, 2.0]),
    st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan]),
    st.just(0.5),
    st.just(math.inf),
    st.just(math.nan),
]
TIMES_DRAWN = [st.integers(0, HUGE), st.integers(0, 2), st.integers(HUGE - 2, HUGE), st.just(0), st.just(HUGE)]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Candidates, int]:
    m = draw(st.integers(1, 40))
    n = draw(st.one_of(st.integers(1, m), st.sampled_from([1, m])))
    distance, times = draw(st.sampled_from(DISTANCES)), draw(st.sampled_from(TIMES_DRAWN))
    distances = draw(st.lists(distance, min_size=m, max_size=m))
    times_drawn = draw(st.lists(times, min_size=m, max_size=m))
    first = draw(st.sampled_from([0, 10**15]))
    order = [first + number for number in draw(st.permutations(range(m)))]
    return make(distances, times_drawn, order), n


@pytest.mark.parametrize("name", STRATEGIES)
@settings(deadline=None)
@given(problem=problems())
@example(problem=(make([math.nan, -math.nan, math.inf], [0, 0, 0], [2, 1, 3]), 2))
@pytest.mark.slow
def test_strategies_match_their_definitions(name: str, problem: tuple[Candidates, int]) -> None:
    candidates, n = problem
    taken = take(STRATEGIES[name], candidates, n)
    assert len(taken) == len(set(taken)) == n
    assert taken == [candidate.number for candidate in SLOW[name](candidates, n)]


def test_every_strategy_has_a_slow_version() -> None:
    assert set(STRATEGIES) == set(SLOW)


# Eight candidates, sorted by distance 5 2 7 0 | 4 1 6 3, or for n = 3: 5 2 | 7 0 4 | 1 6 3.
EIGHT = make([0.4, 0.6, 0.2, 0.8, 0.5, 0.1, 0.7, 0.3], [1, 0, 3, 2, 2, 4, 0, 0], [3, 1, 4, 0, 5, 7, 2, 6])


@pytest.mark.parametrize(
    ("name", "n", "expected"),
    [
        ("lowest", 3, [5, 2, 7]),
        ("stratified", 2, [5, 4]),
        ("stratified", 3, [5, 7, 1]),
        ("lowest_least_sampled", 4, [7, 1, 6, 0]),
        ("stratified_least_sampled", 2, [7, 1]),
        ("stratified_least_sampled", 3, [2, 7, 1]),
    ],
)
def test_an_example_calculated_by_hand(name: str, n: int, expected: list[int]) -> None:
    assert take(STRATEGIES[name], EIGHT, n) == expected


@pytest.mark.parametrize("name", STRATEGIES)
def test_all_candidates_are_selected_if_n_is_m(name: str) -> None:
    assert sorted(take(STRATEGIES[name], EIGHT, 8)) == list(range(8))


@pytest.mark.parametrize("name", ["lowest", "lowest_least_sampled"])
def test_the_oldest_of_equal_candidates_are_selected(name: str) -> None:
    for distance in (0.0, math.inf, math.nan):
        assert take(STRATEGIES[name], make([distance] * 4, [9] * 4, [8, 3, 9, 1]), 2) == [3, 1]


@pytest.mark.parametrize("name", STRATEGIES)
def test_wrong_shapes_and_counts_are_refused(name: str) -> None:
    strategy, three, four, counts = STRATEGIES[name], np.zeros(3), np.arange(4), np.arange(3)
    for arrays in ((three[:, None], counts[:, None], counts[:, None]), (three, four, counts), (three, counts, four)):
        with pytest.raises(ValueError, match=r"must be \[m\]"):
            strategy(*arrays, 1)
    for n in (-1, 0, 4):
        with pytest.raises(ValueError, match=f"1 ≤ n ≤ m, .* {n}$"):
            strategy(three, counts, counts, n)
