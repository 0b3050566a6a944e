"""How many rounds are in flight, in a simulation of a learner and its workers with its own clock."""

import heapq
import random
from dataclasses import dataclass

import pytest

from workers.flow_control import WAITS_PER_RAISE, Lockstep, PlayOnDemand


@dataclass
class Outcome:
    """Figures of the second half of the simulation."""

    rounds_per_second: float
    mean_age: float  # rounds that were taken between the start of a round and its own use
    limit: int


def simulate(
    flow: PlayOnDemand, updates: int, playing: float, learning: float, jitter: float = 0.0, rounds: int = 1
) -> Outcome:
    """A learner and workers that play a round in `playing` seconds.

    The learner takes `learning` seconds for each of the `rounds` rounds in an update.
    """
    generator = random.Random(0)
    now, counted_from = 0.0, 0.0
    in_flight: list[tuple[float, int]] = []  # (when it is delivered, how many rounds were taken when it started)
    ages: list[int] = []

    def hand_out() -> None:
        while len(in_flight) < flow.limit:
            delivered_at = now + playing * generator.uniform(1 - jitter, 1 + jitter)
            heapq.heappush(in_flight, (delivered_at, len(ages)))

    for update in range(updates):
        if update == updates // 2:
            counted_from = now
        for _ in range(rounds):
            hand_out()
            while in_flight[0][0] > now:
                flow.nothing_delivered(learner_waits=True)
                hand_out()
                now = min(in_flight[0][0], now + 0.1)
            _, started = heapq.heappop(in_flight)
            flow.learner_starts_round(ready_behind=sum(delivered_at <= now for delivered_at, _ in in_flight))
            ages.append(len(ages) - started)
        hand_out()
        now += learning * rounds
    half = ages[len(ages) // 2 :]
    return Outcome(len(half) / (now - counted_from), sum(half) / len(half), flow.limit)


class NoBackpressure(PlayOnDemand):
    """For comparison: all workers play all the time."""

    def learner_starts_round(self, ready_behind: int) -> None:
        pass


@pytest.mark.parametrize("most", [2, 8, 64, 128])
def test_a_slow_learner_gets_fresh_rounds(most: int) -> None:
    """A round takes 2.5 times as long to play as to learn from, so three or four must be in flight."""
    outcome = simulate(PlayOnDemand(most), 2000, playing=0.25, learning=0.1, jitter=0.3)
    assert outcome.limit <= min(most, 6)
    assert outcome.mean_age <= min(most, 6)
    if most > 2:
        assert outcome.rounds_per_second >= 0.97 / 0.1


@pytest.mark.parametrize("rounds", [2, 4, 5])
@pytest.mark.parametrize(("playing", "learning"), [(0.3, 0.25), (0.8, 0.5)])
def test_updates_from_many_rounds_seldom_wait(rounds: int, playing: float, learning: float) -> None:
    outcome = simulate(PlayOnDemand(16), 2000, playing, learning, jitter=0.3, rounds=rounds)
    assert outcome.rounds_per_second >= 0.98 / learning
    assert outcome.limit <= 2 * rounds


@pytest.mark.parametrize("most", [1, 2, 8, 64])
def test_a_fast_learner_gets_all_rounds_that_workers_can_play(most: int) -> None:
    outcome = simulate(PlayOnDemand(most), 2000, playing=1.0, learning=0.9 / most, jitter=0.3)
    assert outcome.limit >= 0.9 * most
    unlimited = simulate(NoBackpressure(most), 2000, playing=1.0, learning=0.9 / most, jitter=0.3)
    assert outcome.rounds_per_second >= 0.97 * unlimited.rounds_per_second


def test_the_limit_follows_a_learner_that_becomes_slower_and_faster() -> None:
    flow = PlayOnDemand(32)
    assert simulate(flow, 500, playing=1.0, learning=0.05).limit >= 19
    assert simulate(flow, 500, playing=1.0, learning=0.5).limit <= 4
    assert simulate(flow, 500, playing=1.0, learning=0.05).limit >= 19


def test_the_limit_stays_if_a_round_was_missing_once() -> None:
    """One round is taken while another is played, which is not always delivered in time."""
    flow = PlayOnDemand(2)
    for ready in [1, 1, 0] * 100:
        flow.learner_starts_round(ready)
    assert flow.limit == 2


def test_the_limit_is_at_least_one() -> None:
    flow = PlayOnDemand(64)
    for _ in range(10_000):
        flow.learner_starts_round(ready_behind=63)
        flow.learner_starts_round(ready_behind=flow.limit - 1)
    assert flow.limit == 1


def test_each_wait_raises_the_limit_and_a_long_wait_more_than_once() -> None:
    flow = PlayOnDemand(4)
    for _ in range(200):
        flow.learner_starts_round(ready_behind=min(3, flow.limit - 1))
    assert flow.limit == 1
    flow.nothing_delivered(learner_waits=False)
    assert flow.limit == 1
    for _ in range(WAITS_PER_RAISE):
        flow.nothing_delivered(learner_waits=True)
    assert flow.limit == 2
    flow.learner_starts_round(ready_behind=0)
    flow.nothing_delivered(learner_waits=True)
    assert flow.limit == 3
    for _ in range(10 * WAITS_PER_RAISE):
        flow.nothing_delivered(learner_waits=True)
    assert flow.limit == 4


def test_in_lockstep_all_workers_play_one_round_and_pause() -> None:
    flow = Lockstep(3)
    flow.nothing_delivered(learner_waits=False)
    assert flow.limit == 0
    flow.nothing_delivered(learner_waits=True)
    assert flow.limit == 3
    assert flow.deliver((2, 0)) == []
    assert flow.deliver((0, 0)) == []
    assert flow.limit == 3
    assert flow.deliver((1, 0)) == [(0, 0), (1, 0), (2, 0)]
    assert flow.limit == 0
