"""What learners exchange, and what becomes of one whose peer is lost."""

import itertools
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from learners import shares
from learners.agreement import GroupAgreement, Verdict, decide
from learners.group import LearnerGroup, LearnerLostError
from learners.merged_report import CHECKSUM, NAMED_SECONDS, WAITS, WaitingTimes, merged_report
from learners.messages import MAX_GAMES, Game, LearnerMessage, Unsent
from learners.rank import LearnerRank, learner_rank
from learners.shares import part_of, settle_learners
from option_flags import Config
from options.rules import UsageError
from reports.sinks import SinkList
from run_files.metrics import Report
from tests.learners.groups import run_group
from tests.learners.threads import run_threads
from tests.training.catch_runs import MIXED
from tests.training.some_run import some_progress, some_run
from tests.training.test_progress import play_games
from training.housekeeping import Housekeeping
from training.progress import Progress
from training.summary import SummaryFile

SILENCE = 0.5  # seconds after which a silent learner is lost
NEWS = LearnerMessage(
    ends=True,
    used_up=True,
    ready=False,
    busy=True,
    goal_reached=True,
    updates=7,
    report=True,
    save=2,
    steps=40,
    frames=160,
    games=[Game(-3.5, 12, 1), Game(21.0, 9, 0)],
)


@pytest.mark.parametrize("news", [LearnerMessage(), NEWS, NEWS._replace(games=[Game(0.1, 5, 2)] * MAX_GAMES)])
def test_a_message_carries_the_news(news: LearnerMessage) -> None:
    message = news.encoded()
    assert message.shape == LearnerMessage().encoded().shape
    assert LearnerMessage.decoded(message) == news._replace(games=list(news.games))


def test_a_message_says_how_many_games_have_no_room_in_it() -> None:
    unsent, games = Unsent(), [Game(float(n), n, 0) for n in range(MAX_GAMES + 3)]
    unsent.add(20, 80, games)
    message = unsent.take().encoded()
    assert message.shape == LearnerMessage().encoded().shape
    assert LearnerMessage.decoded(message) == LearnerMessage(steps=20, frames=80, games_left=3, games=games[:MAX_GAMES])
    assert unsent.take() == LearnerMessage(games=[])


def test_a_report_of_all_adds_up_what_each_one_uses_and_averages_the_batch() -> None:
    own = {"agent_steps": 80, "cpu_learner": 50.0, "policy_lag_max": 3, "policy_lag_mean": 1.0, "entropy": 0.5}
    other = {"agent_steps": 80, "cpu_learner": 70.0, "policy_lag_max": 9, "policy_lag_mean": 2.0, "entropy": 0.7}
    merged = merged_report([{**own, CHECKSUM: 5}, {**other, CHECKSUM: 5}], ["entropy"])
    expected = {"agent_steps": 80, "cpu_learner": 120.0, "policy_lag_max": 9, "policy_lag_mean": 1.5, "entropy": 0.6}
    assert {name: merged[name] for name in expected} == pytest.approx(expected)
    assert CHECKSUM not in merged
    assert [each["policy_lag_mean"] for each in merged["learners"]] == [1.0, 2.0]  # type: ignore[union-attr,index,call-overload]


def test_a_report_of_all_has_the_mean_shares_of_time() -> None:
    own: Report = {
        CHECKSUM: 5,
        "worker_time_shares": {"environment": 0.5, "rest": None},
        "gpu_memory_mb": 10,
        "replays": {},
    }
    other: Report = {
        CHECKSUM: 5,
        "worker_time_shares": {"environment": 0.7, "rest": None},
        "gpu_memory_mb": 30,
        "replays": {},
    }
    merged = merged_report([own, other], [])
    assert merged["worker_time_shares"] == {"environment": pytest.approx(0.6), "rest": None}
    assert (merged["gpu_memory_mb"], merged["replays"]) == (40, {})


def test_weights_that_differ_are_an_error() -> None:
    with pytest.raises(LearnerLostError, match="the weights of learner 1 are not those of learner 0"):
        merged_report([{CHECKSUM: 5}, {CHECKSUM: 6}, {CHECKSUM: 5}], [])


@pytest.mark.parametrize(
    ("waits", "slowest"),
    [([0.5, 0.01], 1), ([0.01, 0.3, 0.4], 0), ([0.1, 0.1], None), ([0.5, 0.4], None), ([0.4, 0.01, 0.02], None)],
)
def test_the_learner_that_the_others_wait_for_is_found(waits: list[float], slowest: int | None) -> None:
    assert WaitingTimes().slowest_learner(waits) == slowest


def test_slow_learners_are_named_once_in_some_minutes() -> None:
    """Two learners that wait for each other in turns have said so eleven times in eighteen seconds."""
    seconds = [0.0]
    waiting = WaitingTimes(lambda: seconds[0])
    named = []
    for turn in range(int(2.5 * NAMED_SECONDS)):
        seconds[0] = float(turn)
        named += [turn] if waiting.slowest_learner([[0.5, 0.0], [0.1, 0.1], [0.0, 0.5]][turn % 3]) is not None else []
    assert named == [0, NAMED_SECONDS, 2 * NAMED_SECONDS]


def test_a_slow_learner_is_announced_with_a_report() -> None:
    waits, said = iter([[0.5, 0.0], [0.0, 0.0], [0.0, 0.5], [0.5, 0.0]]), list[str]()
    group: Any = SimpleNamespace(
        lost=False,
        size=2,
        rank=LearnerRank(0, 2, 0, 2),
        guarded=nullcontext,
        of_all=lambda own: [{**own, WAITS: each} for each in next(waits)],
    )
    agreement = GroupAgreement(group)
    agreement.connect(LearnerMessage, print, lambda: 4, said.append)
    merged = [agreement.merged({"agent_steps": 8}, [])[WAITS] for _ in range(4)]
    assert merged == [0.25, 0.0, 0.25, 0.25]
    assert said == ["learner 1 is slower than the others, which wait for it"]


READY, WAITING = LearnerMessage(ready=True, updates=3), LearnerMessage()


@pytest.mark.parametrize(
    ("news", "verdict"),
    [
        ([READY, READY], Verdict.UPDATE),
        ([READY, WAITING], Verdict.WAIT),
        ([WAITING, WAITING._replace(busy=True)], Verdict.WAIT),
        ([READY, READY._replace(ready=False, ends=True)], Verdict.STOP),
        ([WAITING, WAITING._replace(updates=3, ends=True)], Verdict.STOP),
        ([READY, READY._replace(ready=False, used_up=True)], Verdict.FINISH),
        ([WAITING, READY._replace(ready=False, used_up=True)], Verdict.WAIT),
        ([READY._replace(ends=True), READY._replace(ready=False, used_up=True)], Verdict.FINISH),
    ],
)
def test_what_all_decide_from_the_same_messages(news: list[LearnerMessage], verdict: Verdict) -> None:
    assert decide(news) is verdict and decide(news[::-1]) is verdict


def test_learners_with_different_updates_are_lost() -> None:
    assert decide([READY, WAITING]) is Verdict.WAIT, "a sign of life says nothing of updates"
    with pytest.raises(LearnerLostError, match="the learners have made 3, 4 updates"):
        decide([READY, READY._replace(updates=4)])


def test_ranks_come_from_the_variables_of_torchrun() -> None:
    variables = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    there = {**variables, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    assert learner_rank(there) == LearnerRank(index=3, size=4, local_index=1, local_size=2)
    assert learner_rank(variables) is None
    with pytest.raises(UsageError, match="must be whole numbers"):
        learner_rank({**there, "RANK": "first"})


@pytest.mark.parametrize(
    ("flags", "learners"),
    [({}, 4), ({"worker_count": 2}, 2), ({"worker_count": 3}, 2), ({"device": "mps"}, 1), ({"device": "cuda:1"}, 1)],
)
def test_the_number_of_learners_fits_the_machine_and_the_workers(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any], learners: int
) -> None:
    monkeypatch.setattr(shares, "usable_cores", lambda: 16)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    config = Config.from_flags({"learners": 0, "batch_size": 8, **flags})
    assert settle_learners(config, None).learners.learners == learners


@pytest.mark.parametrize(
    ("flags", "rank", "sentence"),
    [
        ({"learners": 4}, None, "--learners=4 needs as many GPUs, and this machine has 3; --learners=2 would be right"),
        ({}, LearnerRank(0, 8, 0, 4), "4 learners on this machine need as many GPUs, and this machine has 3; fewer on"),
        ({"device": "cuda:0"}, LearnerRank(0, 2, 0, 2), "2 learners on this machine need a device for each learner"),
    ],
)
def test_learners_without_a_gpu_of_their_own_are_refused(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any], rank: LearnerRank | None, sentence: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    with pytest.raises(UsageError, match=sentence):
        settle_learners(Config.from_flags({"batch_size": 8, **flags}), rank)
    one_here = LearnerRank(1, 2, 0, 1)
    assert settle_learners(Config.from_flags({"batch_size": 8, "device": "cuda:0"}), one_here).learners.learners == 2


@pytest.mark.parametrize(("batch_size", "learners"), [(8, 1), (15, 1), (16, 2), (24, 3), (64, 8), (128, 8)])
def test_each_gpu_gets_a_learner_with_at_least_eight_unrolls(
    monkeypatch: pytest.MonkeyPatch, batch_size: int, learners: int
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    config = Config.from_flags({"learners": 0, "batch_size": batch_size})
    assert settle_learners(config, None).learners.learners == learners


def make_a_network(group: LearnerGroup) -> str:
    device = SimpleNamespace(type=("cuda", "cpu")[group.rank.index])
    network: Any = SimpleNamespace(parameters=lambda: iter([SimpleNamespace(device=device)]))
    try:
        group.averaging(network)
    except UsageError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_learners_with_different_devices_are_refused() -> None:
    """A group for GPUs must be made by all, so those with a GPU would wait for the others."""
    for said in run_group(make_a_network):
        assert said.startswith("the learners have different devices (cpu and cuda); ")


def test_each_learner_gets_its_share() -> None:
    config = Config.from_flags(
        {"learners": 2, "batch_size": 8, "worker_count": 5, "replay_parameters": MIXED, "seed": 1, "tensorboard": True}
    )
    first, second = (part_of(config, LearnerRank(rank, 2, rank, 2)) for rank in range(2))
    assert first.replay.shares == second.replay.shares == (2, 2)
    assert [replay.capacity for replay in first.replay.replays] == [2, 20]
    assert (first.workers.worker_count, second.workers.worker_count) == (3, 2)
    assert (first.seed, first.report.tensorboard) == (1, True)
    assert second.seed != 1 and not second.report.tensorboard
    assert part_of(config, LearnerRank()) is config


@pytest.mark.parametrize(
    ("unrolls", "waiting", "expected"),
    [
        (10, [0, 0], [5, 5]),
        (11, [0, 0], [6, 6]),
        (10, [3, 1], [4, 6]),
        (3, [8, 0, 1], [0, 2, 1]),
        (6, [-4, 0], [5, 1]),
        (0, [2, 1], [0, 0]),
        (7, [3], [7]),
    ],
)
def test_what_each_learner_receives_makes_up_for_what_waits(
    unrolls: int, waiting: list[int], expected: list[int]
) -> None:
    assert shares.equal_shares(unrolls, waiting) == expected


@pytest.mark.parametrize(("workers", "counts"), [(5, [3, 2]), (7, [3, 2, 2]), (4, [1, 1, 1, 1])])
def test_all_workers_are_divided_among_the_learners(workers: int, counts: list[int]) -> None:
    learners = len(counts)
    config = Config.from_flags({"learners": learners, "batch_size": 24, "worker_count": workers, "seed": 1})
    ranks = [LearnerRank(rank, learners, rank, learners) for rank in range(learners)]
    assert [part_of(config, rank).workers.worker_count for rank in ranks] == counts


def waits_for_the_other(group: LearnerGroup, last: Callable[[], None]) -> Any:
    """Learner 1 does `last` instead of taking part; the report of learner 0 after that."""
    if group.rank.index == 1:
        last()
        return None
    agreement = GroupAgreement(group)
    with pytest.raises(LearnerLostError):
        any(agreement.may_update(ready=True) for _ in itertools.count())
    assert group.lost
    return agreement.merged({"agent_steps": 1}, [])  # nothing is done together any more


def die() -> None:
    os._exit(9)


def hang() -> None:
    time.sleep(600)


def agrees(group: LearnerGroup) -> list[Any]:
    """Learner 1 is ready later, and wants the run to end after the first update."""
    agreement, rank = GroupAgreement(group), group.rank.index
    heard: list[Any] = []
    agreement.connect(
        lambda: LearnerMessage(steps=10 + rank, report=rank == 0, save=1 - rank), heard.extend, lambda: 4, print
    )
    granted = 0
    for turn in range(10_000):
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
    said: list[str] = []
    agreement.connect(
        lambda: LearnerMessage(steps=next(steps), save=next(due, 0)), heard.extend, lambda: 4, said.append
    )
    while not agreement.may_update(ready=group.rank.is_first or time.monotonic() - begun > 3 * SILENCE):
        assert agreement.goes_on(stops=False, used_up=False)
        assert not heard and agreement.save_due(lambda: 0) == 0, "nothing comes of a sign of life"
    assert time.monotonic() - begun > 3 * SILENCE
    assert said == ["no batch has come for learner 1 in 0 seconds, so nobody updates"]
    return agreement.save_due(lambda: 0), [each.steps for each in heard]


def test_a_learner_without_a_batch_is_not_lost() -> None:
    (first_save, of_second), (second_save, of_first) = run_threads(has_no_batch_for_long, timeout=SILENCE)
    assert first_save == second_save == 2
    assert [steps for steps in of_second if steps] == [20], "the second learner told its steps with its batch"
    assert of_first == [20 * number for number in range(1, len(of_first) + 1)] and len(of_first) > 3


def connected(group: LearnerGroup, progress: Progress) -> GroupAgreement:
    """An agreement of a run that consists of its progress only."""
    agreement, config = GroupAgreement(group), Config().replace_flags(reproducible=True)
    run = some_run(Path(), config=config, agreement=agreement, rank=group.rank, progress=progress)
    Housekeeping(run, SinkList(), SummaryFile(run))
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


def plays_short_games(group: LearnerGroup) -> list[tuple[int, list[float]]]:
    """What each learner knows of the games of all after an update, and at the end; each plays more than fit.

    Learner 1 has played two more games after its last message.
    """
    progress = some_progress(learners=2, environment_max_steps=10**6, avg_buff_size=10**4)
    agreement = connected(group, progress)
    known = []
    play_games(progress, *[float(n) for n in range(3 * MAX_GAMES)])
    while not agreement.may_update(ready=True):
        pass
    known.append((progress.episodes, sorted(progress.recent_returns)))
    play_games(progress, *[-1.0] * (2 * MAX_GAMES))
    while agreement.goes_on(stops=False, used_up=True):
        pass
    return [*known, (progress.episodes, sorted(progress.recent_returns))]


def test_no_game_is_left_out_however_many_there_are() -> None:
    after_update = sorted([float(n) for n in range(3 * MAX_GAMES)] * 2)
    at_end = [-1.0] * (4 * MAX_GAMES) + after_update
    for known in run_threads(plays_short_games):
        assert known == [(len(after_update), after_update), (len(at_end), at_end)]


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
    return progress.agent_steps, finished, agreement.reports_at_end(rank.is_first)


@pytest.mark.parametrize("stops", [False, True])
def test_all_learners_know_alike_how_the_run_ended(stops: bool) -> None:
    """Whether they report together depends on it, in a reproducible run."""
    steps, finished = (140, False) if stops else (160, True)
    assert run_threads(ends_at_different_times, stops) == [(steps, finished, finished)] * 2


def waits_for_an_evaluation(group: LearnerGroup) -> list[str]:
    """Learner 0 is busy for much longer than a silent learner would be lost; then both update."""
    agreement, said = GroupAgreement(group), list[str]()
    agreement.connect(LearnerMessage, lambda news: None, lambda: 4, said.append)
    begun = time.monotonic()
    while group.rank.is_first and time.monotonic() - begun < 3 * SILENCE:
        assert agreement.keep_alive()
        time.sleep(0.01)
    while not agreement.may_update(ready=True):
        pass
    return said


def test_a_learner_that_waits_for_an_evaluation_is_not_lost() -> None:
    assert run_threads(waits_for_an_evaluation, timeout=SILENCE) == [[], []]


@pytest.mark.slow
def test_a_learner_that_hangs_is_noticed() -> None:
    assert run_group(waits_for_the_other, hang, dying=1, timeout=SILENCE)[0] == {"agent_steps": 1}


@pytest.mark.slow
def test_a_learner_that_dies_is_noticed_at_once() -> None:
    """Long before it would be taken for one that hangs."""
    assert run_group(waits_for_the_other, die, dying=1)[0] == {"agent_steps": 1}
