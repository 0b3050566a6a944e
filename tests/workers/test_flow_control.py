"""How many rounds are in flight, in a simulation of a learner and its workers with its own clock."""

import random
from dataclasses import dataclass

import pytest

from workers.flow_control import FIRST, Lockstep, PlayOnDemand

UNROLLS = 8  # of a round


@dataclass
class Outcome:
    """Figures of the second half of the simulation, where not said otherwise."""

    rounds_per_second: float
    oldest: float  # of all rounds, in the same measure as the next one
    mean_age: float  # rounds that were taken between the start of a round and the start of its own use
    limit: int
    lowest: int  # limit in the whole simulation


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def simulate(
    flow: PlayOnDemand, updates: int, playing: float, learning: float, jitter: float = 0.0, batch: int = UNROLLS
) -> Outcome:
    """A learner and workers that play a round in `playing` seconds.

    The learner takes `learning` seconds for the unrolls of a round; `batch` unrolls are an update.
    """
    generator = random.Random(0)
    now, counted_from, counted_at = 0.0, 0.0, 0
    played: list[tuple[float, float]] = []  # (when it is delivered, rounds that were taken when it started)
    delivered: list[float] = []  # of each: rounds that were taken when it started
    ages: list[float] = []
    taken = 0  # unrolls of all rounds
    lowest = flow.limit

    def poll() -> None:
        for round_ in sorted(played):
            if round_[0] <= now:
                played.remove(round_)
                delivered.append(round_[1])
                flow.deliver((0, 0))
        while len(played) + len(delivered) < flow.limit:
            played.append((now + playing * generator.uniform(1 - jitter, 1 + jitter), taken / UNROLLS))

    clock = flow._clock = Clock()
    for update in range(updates):
        if update == updates // 2:
            counted_from, counted_at = now, taken
        for _ in range(batch):
            poll()
            while not delivered:
                clock.seconds = now
                flow.nothing_delivered(learner_waits=True)
                poll()
                now = min(min(played)[0], now + 0.1)
                poll()
            if taken % UNROLLS == 0:
                ages.append(taken / UNROLLS - delivered[0])
            taken += 1
            flow.unrolls_taken((taken - 1) % UNROLLS + 1, UNROLLS)
            lowest = min(lowest, flow.limit)
            if taken % UNROLLS == 0:
                delivered.pop(0)
        now += learning * batch / UNROLLS
    half = ages[len(ages) // 2 :]
    speed = (taken - counted_at) / UNROLLS / (now - counted_from)
    return Outcome(speed, max(ages), sum(half) / len(half), flow.limit, lowest)


class NoBackpressure(PlayOnDemand):
    """For comparison: all workers play all the time."""

    @property
    def limit(self) -> int:
        return self.max_limit


@pytest.mark.parametrize("most", [2, 8, 64, 128])
def test_a_slow_learner_gets_fresh_rounds(most: int) -> None:
    """A round takes 2.5 times as long to play as to learn from, so three or four must be in flight."""
    outcome = simulate(PlayOnDemand(most), 2000, playing=0.25, learning=0.1, jitter=0.3)
    assert outcome.limit <= min(most, 6)
    assert outcome.mean_age <= min(most, 5)
    if most > 2:
        assert outcome.rounds_per_second >= 0.97 / 0.1


@pytest.mark.parametrize(("most", "playing", "learning"), [(32, 1.0, 0.1), (128, 3.0, 0.1), (128, 5.0, 0.5)])
def test_a_high_limit_falls_once_for_the_same_surplus(
    monkeypatch: pytest.MonkeyPatch, most: int, playing: float, learning: float
) -> None:
    """The rounds in flight when the limit falls wait as long as before."""
    monkeypatch.setattr("workers.flow_control.FIRST", float(most))
    outcome = simulate(PlayOnDemand(most), 1000, playing, learning, jitter=0.1)
    assert outcome.lowest >= 0.8 * playing / learning
    assert outcome.limit <= 1.5 * playing / learning + 2


@pytest.mark.parametrize(("most", "needed"), [(2, 2), (32, 10), (128, 10), (128, 40)])
def test_the_first_rounds_are_nearly_as_fresh_as_all_others(
    monkeypatch: pytest.MonkeyPatch, most: int, needed: int
) -> None:
    """Also where there are many more workers than the learner needs, and it still gets what it needs before long."""
    first = simulate(PlayOnDemand(most), 20 * needed, playing=0.1 * needed, learning=0.1, jitter=0.1)
    assert first.oldest <= 2 * min(most, needed) + 4
    if most > needed:
        assert first.rounds_per_second >= 0.9 / 0.1, "in the second half of the rounds"
    monkeypatch.setattr("workers.flow_control.FIRST", 128.0)
    at_once = simulate(PlayOnDemand(128), 200, playing=1.0, learning=0.1, jitter=0.1)
    assert at_once.oldest > 100, "if all workers began at once"


def test_no_more_rounds_are_allowed_while_workers_start() -> None:
    clock = Clock()
    flow = PlayOnDemand(64, clock)
    before = flow.limit
    for clock.seconds in range(60):
        flow.nothing_delivered(learner_waits=True)
    assert flow.limit == before


@pytest.mark.parametrize("batch", [16, 32, 40])
@pytest.mark.parametrize(("playing", "learning"), [(0.3, 0.25), (0.8, 0.5)])
def test_updates_from_many_rounds_seldom_wait(batch: int, playing: float, learning: float) -> None:
    outcome = simulate(PlayOnDemand(16), 2000, playing, learning, jitter=0.3, batch=batch)
    assert outcome.rounds_per_second >= 0.98 / learning
    assert outcome.limit <= 2 * batch / UNROLLS


def test_a_shorter_window_makes_rounds_younger_for_little_speed() -> None:
    """Rounds are played 1.4 times as slowly as they are learned from, by workers on another node."""
    long, short = (
        simulate(PlayOnDemand(4, window=window), 4000, playing=1.4, learning=1.0, jitter=0.3, batch=UNROLLS // 4)
        for window in (2.0, 1.0)
    )
    assert short.mean_age < long.mean_age - 0.05
    assert short.rounds_per_second > 0.98 * long.rounds_per_second


@pytest.mark.parametrize(("playing", "fewest"), [(0.2, 0.2), (0.5, 0.5), (0.8, 0.8)])
def test_updates_from_a_part_of_a_round_get_rounds_just_in_time(playing: float, fewest: float) -> None:
    """A round is played faster than it is learned from: less than one whole round needs to be ahead."""
    outcome = simulate(PlayOnDemand(8), 4000, playing, learning=1.0, jitter=0.1, batch=2)
    assert fewest <= outcome.mean_age <= fewest + 0.45
    assert outcome.rounds_per_second >= 0.97


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


def take_round(flow: PlayOnDemand, waits_for: int = 0) -> None:
    """Deliver a round and take it, or the one that was delivered `waits_for` rounds before."""
    flow.deliver((0, 0))
    if len(flow._delivered) > waits_for:
        flow.unrolls_taken(1, 1)


def test_the_limit_stays_if_a_round_came_late_once() -> None:
    flow = PlayOnDemand(3)
    for _ in range(100):
        for waits in (1, 1, 0):
            flow.deliver((0, 0))
            while len(flow._delivered) > waits:
                flow.unrolls_taken(1, 1)
    assert flow.limit == 3


def test_the_limit_is_at_least_one() -> None:
    flow = PlayOnDemand(64)
    for _ in range(10_000):
        take_round(flow, waits_for=10)
    assert flow.limit == 1


def test_each_wait_raises_the_limit_up_to_all_workers() -> None:
    clock = Clock()
    flow = PlayOnDemand(4, clock)
    for _ in range(200):
        take_round(flow, waits_for=3)
    assert flow.limit == 1
    flow.nothing_delivered(learner_waits=False)
    assert flow.limit == 1
    for raises in range(1, 40):
        clock.seconds += 0.101
        flow.nothing_delivered(learner_waits=True)
        flow.nothing_delivered(learner_waits=True)
        assert flow.limit == min(4, 1 + raises // 8), "a wait that some message ends early is the same wait"


def test_each_round_that_comes_late_raises_the_limit_however_short_the_waits_are() -> None:
    flow = PlayOnDemand(4, Clock())
    for _ in range(200):
        take_round(flow, waits_for=3)
    for raises in range(1, 9):
        flow.nothing_delivered(learner_waits=True)
        assert flow.limit == 1 + raises // 8
        take_round(flow)


def test_of_the_round_that_is_taken_only_the_rest_is_in_flight() -> None:
    flow = PlayOnDemand(4, Clock())
    for _ in range(200):
        take_round(flow, waits_for=3)
    for _ in range(4):
        flow.nothing_delivered(learner_waits=True)
        take_round(flow)
    flow.deliver((0, 0))
    limits = []
    for taken in range(1, 5):
        flow.unrolls_taken(taken, 4)
        limits.append(flow.limit)
    assert limits == [1, 2, 2, 1], "one and a half rounds: the next one may start when half of this one is taken"


def test_workers_that_come_may_play_at_once_and_those_that_go_count_no_more() -> None:
    flow = PlayOnDemand(0)
    assert flow.limit == 0
    flow.set_max_limit(4)
    assert flow.limit == 4
    flow.set_max_limit(2)
    assert flow.limit == 2
    flow.nothing_delivered(learner_waits=True)
    assert flow.limit == 2


def test_workers_that_come_begin_with_few_rounds_and_their_number_rises_fast_until_it_has_been_too_high() -> None:
    """All rounds of a large node at once would be hundreds of updates old when they are learned from."""
    clock = Clock()
    flow = PlayOnDemand(4, clock)
    for _ in range(3):
        flow.deliver((0, 0))
    for _ in range(30):  # three rounds are always ready
        flow.deliver((0, 0))
        flow.unrolls_taken(1, 1)
    assert flow.limit == 1
    flow.set_max_limit(100)
    assert flow.limit == 1 + FIRST
    for clock.seconds in (1, 2, 3):
        flow.nothing_delivered(learner_waits=True)
    assert flow.limit == 1 + FIRST + 3


def test_the_example_in_the_docstring() -> None:
    clock = Clock()
    flow = PlayOnDemand(8, clock)
    limits = [flow.limit]
    flow.nothing_delivered(learner_waits=True)
    limits.append(flow.limit)
    take_round(flow)
    for clock.seconds in (1.0, 1.1):
        flow.nothing_delivered(learner_waits=True)
        limits.append(flow.limit)
    for _ in range(3 + 3 + 12):  # three are ahead, and those that were delivered before them have waited less
        take_round(flow, waits_for=3)
    while flow.limit == 6:
        take_round(flow, waits_for=3)
    limits.append(flow.limit)
    for _ in range(6):
        take_round(flow, waits_for=3)
    flow.nothing_delivered(learner_waits=True)
    limits.append(flow.limit)
    flow.unrolls_taken(1, 2)
    limits.append(flow.limit)
    assert limits == [4, 4, 5, 6, 3, 3, 3]


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


@pytest.mark.parametrize("before", [(), (8, 0), (1, 3, 0)])
def test_workers_that_come_have_the_first_rounds_and_no_more_before_one_is_delivered(before: tuple[int, ...]) -> None:
    """Also where others have left before they delivered one."""
    clock = Clock()
    flow = PlayOnDemand(0, clock)
    for rounds in (*before, 8):
        flow.set_max_limit(rounds)
    for clock.seconds in range(60):
        flow.nothing_delivered(learner_waits=True)
    assert flow.limit == 4
