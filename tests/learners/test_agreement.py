"""What learners tell each other, and what they decide from it."""

import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from learners.agreement import MAX_GAMES, Decision, Game, GroupAgreement, LearnerMessage, Verdict, decide
from learners.group import LearnerGroup, LearnerLostError
from option_flags import Config
from reports.sinks import SinkList
from tests.learners.threads import run_threads
from tests.training.some_run import some_progress, some_run
from tests.training.test_progress import play_games
from training.housekeeping import Housekeeping
from training.progress import Progress

SILENCE = 0.2  # seconds after which a silent learner is lost
NEWS = LearnerMessage(
    True, True, False, True, 7, True, 2, 40, 160, [Game(-3.5, 12, 1), Game(21.0, 9, 0, {"success": 1.0})]
)
LONGEST = Game(-sys.float_info.max / 3, 10**9, 10**5)


@pytest.mark.parametrize("news", [LearnerMessage(), NEWS, NEWS._replace(games=[LONGEST] * MAX_GAMES)])
def test_a_message_carries_the_news(news: LearnerMessage) -> None:
    message = news.encoded()
    assert message.shape == LearnerMessage().encoded().shape
    assert LearnerMessage.decoded(message) == news._replace(games=list(news.games))


READY, WAITING = LearnerMessage(ready=True, updates=3), LearnerMessage()
ENDS, USED_UP = READY._replace(ready=False, ends=True), READY._replace(ready=False, used_up=True)


@pytest.mark.parametrize(
    ("news", "verdict"),
    [
        ([READY, READY], Verdict.UPDATE),
        ([READY, WAITING], Verdict.WAIT),
        ([WAITING, WAITING], Verdict.WAIT),
        ([READY, ENDS], Verdict.STOP),
        ([WAITING, ENDS], Verdict.STOP),
        ([READY, USED_UP], Verdict.FINISH),
        ([USED_UP, USED_UP], Verdict.FINISH),
        ([WAITING, USED_UP], Verdict.WAIT),
        ([READY._replace(ends=True), USED_UP], Verdict.FINISH),
    ],
)
def test_what_all_decide_from_the_same_messages(news: list[LearnerMessage], verdict: Verdict) -> None:
    assert decide([news]).verdict is verdict and decide([news[::-1]]).verdict is verdict


@pytest.mark.parametrize(
    ("heard", "decision"),
    [
        ([[READY._replace(report=True), READY]], Decision(Verdict.UPDATE, report=True)),
        ([[READY, READY._replace(report=True, save=2)]], Decision(Verdict.UPDATE)),
        ([[READY._replace(save=2), WAITING], [READY, READY]], Decision(Verdict.UPDATE, save=2)),
        ([[READY._replace(save=2), WAITING]], Decision(Verdict.WAIT)),
    ],
    ids=["the first one decides", "no other does", "what it has said counts from the next update on", "not before"],
)
def test_the_first_learner_decides_when_all_report_and_save(
    heard: Sequence[Sequence[LearnerMessage]], decision: Decision
) -> None:
    assert decide(heard) == decision


def test_learners_with_different_updates_are_lost() -> None:
    assert decide([[READY, WAITING]]).verdict is Verdict.WAIT, "a sign of life says nothing of updates"
    with pytest.raises(LearnerLostError, match="the learners have made 3, 4 updates"):
        decide([[READY, READY._replace(updates=4)]])


def agrees(group: LearnerGroup) -> list[Any]:
    """Learner 1 is ready later, and wants the run to end after the first update."""
    agreement, rank = GroupAgreement(group), group.rank.index
    heard: list[Any] = []
    agreement.connect(lambda: LearnerMessage(steps=10 + rank, report=rank == 0, save=1 - rank), heard.extend)
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
    assert first == [1, LearnerMessage(ready=True, steps=11, games=[]), True, 1]
    assert second == [1, LearnerMessage(ready=True, steps=10, report=True, save=1, games=[]), True, 1]


def has_no_batch_for_long(group: LearnerGroup) -> Any:
    """Learner 1 has its first batch long after a silent one would be lost; what is to be saved then."""
    agreement, begun = GroupAgreement(group), group.from_first(time.monotonic())  # one clock for both
    due, steps = iter([2]), itertools.count(20, 20)  # a save is asked for once, before there is a batch
    heard: list[LearnerMessage] = []
    agreement.connect(lambda: LearnerMessage(steps=next(steps), save=next(due, 0)), heard.extend)
    while not agreement.may_update(ready=group.rank.is_first or time.monotonic() - begun > 3 * SILENCE):
        assert agreement.goes_on(stops=False, used_up=False)
        assert not heard and agreement.save_due(lambda: 0) == 0, "nothing comes of a sign of life"
    assert time.monotonic() - begun > 3 * SILENCE
    return agreement.save_due(lambda: 0), [each.steps for each in heard]


@pytest.mark.slow
def test_a_learner_without_a_batch_is_not_lost() -> None:
    (first_save, of_second), (second_save, of_first) = run_threads(has_no_batch_for_long, timeout=SILENCE)
    assert first_save == second_save == 2
    assert [steps for steps in of_second if steps] == [20], "the second learner told its steps with its batch"
    assert of_first == [20 * number for number in range(1, len(of_first) + 1)] and len(of_first) > 3


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
    """The games that each learner knows after an update, and at the end; each plays more than fit in a message."""
    progress = some_progress(learners=2, environment_max_steps=10**6, avg_buff_size=10**4)
    agreement = connected(group, progress)
    play_games(progress, *[float(n) for n in range(2 * MAX_GAMES)])
    while not agreement.may_update(ready=True):
        pass
    known = [sorted(progress.recent_returns)]
    play_games(progress, *[-1.0] * (2 * MAX_GAMES))
    while agreement.goes_on(stops=False, used_up=True):
        pass
    agreement.finished(used_up=True)
    return [*known, sorted(progress.recent_returns)]


def test_no_game_is_left_out_however_many_there_are() -> None:
    own = [float(n) for n in range(2 * MAX_GAMES)]
    for after_update, at_end in run_threads(plays_short_games):
        assert after_update == sorted(own + own[:MAX_GAMES]), "what has no room in a message is told with the next one"
        assert at_end == [-1.0] * (4 * MAX_GAMES) + sorted(own * 2)


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
