"""How many rounds are under way, in a small world with a clock of its own."""

import heapq
from dataclasses import dataclass

import pytest

from workers.turns import Lockstep, OnDemand


@dataclass
class Outcome:
    """Of the second half of what was simulated."""

    rounds_per_second: float
    mean_age: float  # rounds that were taken between the hand-out of a round and its end
    limit: int


def simulate(turns: OnDemand, rounds: int, playing: float, learning: float, jitter: float = 0.0) -> Outcome:
    """A learner that takes `learning` seconds for each round, beside workers that play one in `playing` seconds."""
    now, begun_at = 0.0, 0.0
    under_way: list[tuple[float, int]] = []  # when they will be there, and how many had been taken when they were begun
    ages = []
    state = 1
    for taken in range(rounds):
        if not under_way or under_way[0][0] > now:
            turns.nothing_there(learner_waits=True)
        while len(under_way) < turns.limit:
            state = state * 16807 % 2147483647  # the same numbers in every run
            heapq.heappush(under_way, (now + playing * (1 + jitter * (2 * state / 2147483647 - 1)), taken))
        there, begun = heapq.heappop(under_way)
        now = max(now, there)
        turns.begin(behind=sum(time <= now for time, _ in under_way))
        if taken == rounds // 2:
            begun_at = now
        now += learning
        ages.append(taken - begun)
    half = ages[rounds // 2 :]
    return Outcome(len(half) / (now - begun_at), sum(half) / len(half), turns.limit)


@pytest.mark.parametrize("most", [2, 8, 64, 128])
def test_a_slow_learner_gets_rounds_that_are_hardly_older_than_they_must_be(most: int) -> None:
    """A round takes 2.5 times as long to play as to learn from, so three or four have to be under way."""
    outcome = simulate(OnDemand(most), 2000, playing=0.25, learning=0.1, jitter=0.3)
    assert outcome.limit <= min(most, 6)
    assert outcome.mean_age <= min(most, 6)
    if most > 2:
        assert outcome.rounds_per_second >= 0.97 / 0.1


@pytest.mark.parametrize("most", [1, 2, 8, 64])
def test_a_quick_learner_gets_all_that_the_workers_can_play(most: int) -> None:
    outcome = simulate(OnDemand(most), 2000, playing=1.0, learning=0.9 / most, jitter=0.3)
    assert outcome.limit >= 0.9 * most
    all_of_them = simulate(AllAtOnce(most), 2000, playing=1.0, learning=0.9 / most, jitter=0.3)
    assert outcome.rounds_per_second >= 0.97 * all_of_them.rounds_per_second


class AllAtOnce(OnDemand):
    """What it is to be compared with: everybody plays all the time."""

    def begin(self, behind: int) -> None:
        pass


def test_it_follows_a_learner_that_becomes_slower_and_quicker() -> None:
    turns = OnDemand(32)
    assert simulate(turns, 500, playing=1.0, learning=0.05).limit >= 19
    assert simulate(turns, 500, playing=1.0, learning=0.5).limit <= 4
    assert simulate(turns, 500, playing=1.0, learning=0.05).limit >= 19


def test_two_rounds_are_never_made_fewer() -> None:
    """One to be taken and one to be played: with less, nobody would play while the learner takes."""
    turns = OnDemand(2)
    for behind in [1, 0] * 100:
        turns.begin(behind)
    assert turns.limit == 2


def test_there_is_always_at_least_one() -> None:
    turns = OnDemand(64)
    for _ in range(10_000):
        turns.begin(behind=63)
        turns.begin(behind=turns.limit - 1)
    assert turns.limit == 1


def test_one_long_wait_counts_once() -> None:
    turns = OnDemand(64)
    for _ in range(200):
        turns.begin(behind=min(63, turns.limit - 1))
    assert turns.limit == 1
    for _ in range(100):
        turns.nothing_there(learner_waits=True)
    assert turns.limit == 2
    turns.nothing_there(learner_waits=False)
    turns.begin(behind=0)
    turns.nothing_there(learner_waits=False)
    assert turns.limit == 2
    turns.nothing_there(learner_waits=True)
    assert turns.limit == 3


def test_in_lockstep_all_play_one_round_and_rest() -> None:
    turns = Lockstep(3)
    assert turns.limit == 0
    turns.nothing_there(learner_waits=False)
    assert turns.limit == 3
    assert turns.fill((2, 0)) == []
    assert turns.fill((0, 0)) == []
    assert turns.limit == 3
    assert turns.fill((1, 0)) == [(0, 0), (1, 0), (2, 0)]
    assert turns.limit == 0
