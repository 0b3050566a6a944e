"""How many rounds are under way, in a small world with a clock of its own."""

import heapq
import random
from dataclasses import dataclass

import pytest

from workers.flow_control import LOOKS_IN_VAIN, Lockstep, OnDemand


@dataclass
class Outcome:
    """Of the second half of what was simulated."""

    rounds_per_second: float
    mean_age: float  # rounds that were taken between the hand-out of a round and its end
    limit: int


def simulate(
    turns: OnDemand, updates: int, playing: float, learning: float, jitter: float = 0.0, rounds: int = 1
) -> Outcome:
    """A learner that updates from so many rounds at once, `learning` seconds for each, beside workers that play one in
    `playing` seconds.
    """
    generator = random.Random(0)
    now, begun_at = 0.0, 0.0
    under_way: list[tuple[float, int]] = []  # when they will be there, and how many had been taken when they were begun
    ages: list[int] = []

    def hand_out() -> None:
        while len(under_way) < turns.limit:
            there = now + playing * generator.uniform(1 - jitter, 1 + jitter)
            heapq.heappush(under_way, (there, len(ages)))

    for update in range(updates):
        if update == updates // 2:
            begun_at = now
        for _ in range(rounds):
            hand_out()
            while under_way[0][0] > now:
                turns.found_nothing(learner_waits=True)
                hand_out()
                now = min(under_way[0][0], now + 0.1)
            _, begun = heapq.heappop(under_way)
            turns.round_begun(behind=sum(there <= now for there, _ in under_way))
            ages.append(len(ages) - begun)
        hand_out()
        now += learning * rounds
    half = ages[len(ages) // 2 :]
    return Outcome(len(half) / (now - begun_at), sum(half) / len(half), turns.limit)


class AllAtOnce(OnDemand):
    """What it is to be compared with: everybody plays all the time."""

    def round_begun(self, behind: int) -> None:
        pass


@pytest.mark.parametrize("most", [2, 8, 64, 128])
def test_a_slow_learner_gets_rounds_that_are_hardly_older_than_they_must_be(most: int) -> None:
    """A round takes 2.5 times as long to play as to learn from, so three or four have to be under way."""
    outcome = simulate(OnDemand(most), 2000, playing=0.25, learning=0.1, jitter=0.3)
    assert outcome.limit <= min(most, 6)
    assert outcome.mean_age <= min(most, 6)
    if most > 2:
        assert outcome.rounds_per_second >= 0.97 / 0.1


@pytest.mark.parametrize("rounds", [2, 4, 5])
@pytest.mark.parametrize(("playing", "learning"), [(0.3, 0.25), (0.8, 0.5)])
def test_updates_from_many_rounds_hardly_ever_wait(rounds: int, playing: float, learning: float) -> None:
    outcome = simulate(OnDemand(16), 2000, playing, learning, jitter=0.3, rounds=rounds)
    assert outcome.rounds_per_second >= 0.98 / learning
    assert outcome.limit <= 2 * rounds


@pytest.mark.parametrize("most", [1, 2, 8, 64])
def test_a_quick_learner_gets_all_that_the_workers_can_play(most: int) -> None:
    outcome = simulate(OnDemand(most), 2000, playing=1.0, learning=0.9 / most, jitter=0.3)
    assert outcome.limit >= 0.9 * most
    all_of_them = simulate(AllAtOnce(most), 2000, playing=1.0, learning=0.9 / most, jitter=0.3)
    assert outcome.rounds_per_second >= 0.97 * all_of_them.rounds_per_second


def test_it_follows_a_learner_that_becomes_slower_and_quicker() -> None:
    turns = OnDemand(32)
    assert simulate(turns, 500, playing=1.0, learning=0.05).limit >= 19
    assert simulate(turns, 500, playing=1.0, learning=0.5).limit <= 4
    assert simulate(turns, 500, playing=1.0, learning=0.05).limit >= 19


def test_a_round_that_was_missed_once_stays() -> None:
    """One to be taken and one to be played, which is not always there in time."""
    turns = OnDemand(2)
    for behind in [1, 1, 0] * 100:
        turns.round_begun(behind)
    assert turns.limit == 2


def test_there_is_always_at_least_one() -> None:
    turns = OnDemand(64)
    for _ in range(10_000):
        turns.round_begun(behind=63)
        turns.round_begun(behind=turns.limit - 1)
    assert turns.limit == 1


def test_a_wait_is_one_round_more_and_a_long_one_is_more() -> None:
    turns = OnDemand(4)
    for _ in range(200):
        turns.round_begun(behind=min(3, turns.limit - 1))
    assert turns.limit == 1
    turns.found_nothing(learner_waits=False)
    assert turns.limit == 1
    for _ in range(LOOKS_IN_VAIN):
        turns.found_nothing(learner_waits=True)
    assert turns.limit == 2
    turns.round_begun(behind=0)
    turns.found_nothing(learner_waits=True)
    assert turns.limit == 3
    for _ in range(10 * LOOKS_IN_VAIN):
        turns.found_nothing(learner_waits=True)
    assert turns.limit == 4


def test_in_lockstep_all_play_one_round_and_rest() -> None:
    turns = Lockstep(3)
    turns.found_nothing(learner_waits=False)
    assert turns.limit == 0
    turns.found_nothing(learner_waits=True)
    assert turns.limit == 3
    assert turns.fill((2, 0)) == []
    assert turns.fill((0, 0)) == []
    assert turns.limit == 3
    assert turns.fill((1, 0)) == [(0, 0), (1, 0), (2, 0)]
    assert turns.limit == 0
