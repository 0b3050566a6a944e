"""What learners tell each other, and what they decide from it."""

import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from learners.agreement import GroupAgreement, News, Said, Verdict, decide
from learners.group import LearnerGroup, LearnerLostError
from option_flags import Config
from reports.sinks import SinkList
from tests.learners.threads import run_threads
from tests.training.some_run import some_progress, some_run
from tests.training.test_progress import play_games
from training.housekeeping import Housekeeping
from training.progress import Progress

SILENCE = 0.2  # seconds after which a silent learner is lost
READY, WAITING, ENDS, USED_UP = Said(ready=True), Said(), Said(ends=True), Said(used_up=True)


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ([READY, READY], Verdict.UPDATE),
        ([READY, WAITING], Verdict.WAIT),
        ([WAITING, WAITING], Verdict.WAIT),
        ([READY, ENDS], Verdict.STOP),
        ([WAITING, ENDS], Verdict.STOP),
        ([READY, USED_UP], Verdict.FINISH),
        ([USED_UP, USED_UP], Verdict.FINISH),
        ([WAITING, USED_UP], Verdict.WAIT),
        ([Said(ends=True, used_up=True), USED_UP], Verdict.FINISH),
    ],
)
def test_what_all_decide_from_what_they_have_said(said: list[Said], verdict: Verdict) -> None:
    assert decide(said) is verdict and decide(said[::-1]) is verdict


def has_made_updates(group: LearnerGroup) -> None:
    agreement = GroupAgreement(group)
    agreement.connect(lambda: News(updates=3 + group.rank.index), lambda news: None)
    with pytest.raises(LearnerLostError, match="the learners have made 3, 4 updates"):
        any(agreement.may_update(ready=True) for _ in itertools.count())


def test_learners_with_different_updates_are_lost() -> None:
    run_threads(has_made_updates)


def agrees(group: LearnerGroup) -> list[Any]:
    """Learner 1 is ready later, and wants the run to end after the first update."""
    agreement, rank = GroupAgreement(group), group.rank.index
    heard: list[Any] = []
    agreement.connect(lambda: News(steps=10 + rank, report=rank == 0, save=1 - rank), heard.extend)
    granted = 0
    for turn in itertools.count():
        if not agreement.goes_on(stops=rank == 1 and granted == 1, used_up=False):
            break
        granted += agreement.may_update(ready=rank == 0 or turn > 5)
        if granted:
            heard += [agreement.report_due(False), agreement.save_due(lambda: 2)] if len(heard) == 1 else []
    return [granted, *heard[:3]]


def test_all_update_at_once_and_end_after_the_same_update() -> None:
    first, second = run_threads(agrees)
    assert first == [1, News(steps=11), True, 1]
    assert second == [1, News(steps=10, report=True, save=1), True, 1]


def has_no_batch_for_long(group: LearnerGroup) -> Any:
    """Learner 1 has its first batch long after a silent one would be lost; what is to be saved then."""
    agreement, begun = GroupAgreement(group), group.from_first(time.monotonic())  # one clock for both
    heard: list[News] = []
    agreement.connect(lambda: News(steps=20, save=2), heard.extend)
    while not agreement.may_update(ready=group.rank.is_first or time.monotonic() - begun > 3 * SILENCE):
        assert agreement.goes_on(stops=False, used_up=False)
        assert not heard and agreement.save_due(lambda: 0) == 0, "nothing comes of a sign of life"
    assert time.monotonic() - begun > 3 * SILENCE
    return agreement.save_due(lambda: 0), [each.steps for each in heard]


@pytest.mark.slow
def test_a_learner_without_a_batch_is_not_lost() -> None:
    assert run_threads(has_no_batch_for_long, timeout=SILENCE) == [(2, [20])] * 2


def waits_for_an_evaluation(group: LearnerGroup) -> bool:
    """Learner 0 is busy for much longer than a silent learner would be lost; then both update."""
    agreement = GroupAgreement(group)
    begun = time.monotonic()
    while group.rank.is_first and time.monotonic() - begun < 3 * SILENCE:
        assert agreement.keep_alive()
        time.sleep(0.01)
    while not agreement.may_update(ready=True):
        pass
    return True


@pytest.mark.slow
def test_a_learner_that_waits_for_an_evaluation_is_not_lost() -> None:
    assert run_threads(waits_for_an_evaluation, timeout=SILENCE) == [True, True]


def connected(group: LearnerGroup, progress: Progress) -> GroupAgreement:
    """An agreement of a run that consists of its progress only."""
    agreement, config = GroupAgreement(group), Config().replace_flags(reproducible=True)
    run = some_run(Path(), config=config, agreement=agreement, rank=group.rank, progress=progress)
    Housekeeping(run, SinkList())
    return agreement


def judges_the_goal(group: LearnerGroup) -> tuple[bool, list[float]]:
    """Learner 0 sees good games first and then bad ones; learner 1 hears of the good ones after its own bad ones."""
    rank = group.rank
    progress = some_progress(
        learners=2, rank=rank.index, environment_max_steps=10_000, avg_buff_size=2, stop_at_return=5.0
    )
    agreement = connected(group, progress)
    play_games(progress, *([9.0, 9.0] if rank.is_first else [0.0, 0.0]))
    while not agreement.may_update(ready=True):
        pass
    return progress.goal_reached, list(progress.recent_returns)


def test_the_first_learner_judges_the_goal_for_all() -> None:
    assert run_threads(judges_the_goal) == [(True, [0.0, 0.0]), (True, [9.0, 9.0])]


def plays_short_games(group: LearnerGroup) -> list[list[float]]:
    """The games that each learner knows after an update, and at the end."""
    progress = some_progress(learners=2, environment_max_steps=10**6, avg_buff_size=10**4)
    agreement = connected(group, progress)
    play_games(progress, *range(500))
    while not agreement.may_update(ready=True):
        pass
    known = [sorted(progress.recent_returns)]
    play_games(progress, *[-1.0] * 500)
    while agreement.goes_on(stops=False, used_up=True):
        pass
    agreement.finished(used_up=True)
    return [*known, sorted(progress.recent_returns)]


def test_all_learners_know_all_games() -> None:
    games = sorted([float(number) for number in range(500)] * 2)
    assert run_threads(plays_short_games) == [[games, [-1.0] * 1000 + games]] * 2


def ends_at_different_times(group: LearnerGroup, stops: bool) -> tuple[int, bool, bool]:
    """Learner 0 has used its share of the steps; learner 1 still receives some, or a signal asks it to stop."""
    progress = some_progress(learners=2, environment_max_steps=20 * 8, avg_buff_size=2)
    agreement, rank = connected(group, progress), group.rank
    play_games(progress, *[1.0] * (4 if rank.is_first else 3))
    if not rank.is_first:
        for _ in range(5):  # no batch comes for it meanwhile
            assert agreement.goes_on(stops=False, used_up=False) and not agreement.may_update(ready=False)
        play_games(progress, *([] if stops else [2.0]))
    while agreement.goes_on(stops=stops and not rank.is_first, used_up=not progress.unrolls_left):
        pass
    finished = agreement.finished(not progress.unrolls_left)
    return progress.agent_steps, finished, group.from_first(rank.is_first and finished)


@pytest.mark.parametrize("stops", [False, True])
def test_all_learners_know_alike_how_the_run_ended(stops: bool) -> None:
    """Whether they report together depends on it, in a reproducible run."""
    steps, finished = (140, False) if stops else (160, True)
    assert run_threads(ends_at_different_times, stops) == [(steps, finished, finished)] * 2
