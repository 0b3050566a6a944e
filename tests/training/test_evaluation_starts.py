"""When evaluations during training start, and with which games and options; no game is played here."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
import torch

from evaluation.parallel_games import GameResult
from evaluation.players import PlayerProcess
from option_flags import Config
from processes.pool import ChildPool
from reports.sinks import SinkList
from run_files.checkpoint import checkpoint_name
from tests.training.some_run import some_run
from tests.training.test_periodic_evaluation import SMALL, evaluations
from training import periodic_evaluation as evaluation_module
from training.housekeeping import Housekeeping
from training.periodic_evaluation import PeriodicEvaluation


class Players:
    """In place of a PlayerPool: all games have ended at once."""

    players: ClassVar[list[PlayerProcess]] = []

    def __init__(self, _children: ChildPool, player: PlayerProcess, processes: int, games: range) -> None:
        self.players.append(player)
        self.results = [GameResult(game, 1.0, 5, False, None) for game in games]
        self.under_way = False

    def wait(self, timeout: float) -> list[GameResult]:
        return self.results

    def close(self) -> None:
        pass


def test_each_evaluation_has_games_of_its_own_and_none_comes_before_the_first_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = [(100, 0), (200, 0), (220, 1), (240, 2), (300, 3), (520, 4), (580, 5)]
    players = players_of_evaluations(tmp_path, monkeypatch, moments)
    assert [line["agent_steps"] for line in evaluations(tmp_path)] == [220, 300, 520]
    assert [player.series.seed for player in players] == [(1, 220), (1, 300), (1, 520)]


def players_of_evaluations(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    moments: Sequence[tuple[int, int]],
    keep_alive: Callable[[], bool] = lambda: True,
    show_alive: Callable[[], None] = lambda: None,
    **flags: Any,
) -> list[PlayerProcess]:
    """The players that evaluate every 100 steps, in a run that is at these moments (agent steps, updates)."""
    monkeypatch.setattr(evaluation_module, "PlayerPool", Players)
    monkeypatch.setattr(Players, "players", [])
    learner = SimpleNamespace(updates=0, network=torch.nn.Linear(2, 2))
    timing = SimpleNamespace(action_ms=0.0)
    progress = SimpleNamespace(
        agent_steps=0, parent_steps=0, frames=0, evaluated_steps=0, best_eval_mean=None, interval=timing
    )
    saver: Any = SimpleNamespace(folder=folder, saved_updates=0)
    config = Config.from_flags({**SMALL, "eval_period": 100, **flags})
    monkeypatch.setattr(evaluation_module, "write_summary", lambda run, if_due: show_alive())
    agreement = SimpleNamespace(keep_alive=keep_alive)
    run = some_run(folder, config=config, learner=learner, progress=progress, agreement=agreement)
    evaluation = PeriodicEvaluation(run, saver)
    for steps, updates in moments:
        progress.agent_steps, learner.updates, saver.saved_updates = steps, updates, updates
        timing.action_ms = 10.0 * updates
        (folder / checkpoint_name(updates)).touch()
        evaluation.tick()
        evaluation.start_if_due()
    evaluation.finish()
    evaluation.close()
    return Players.players


def test_actions_of_an_evaluation_in_real_time_take_as_long_as_those_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_real_time: dict[str, Any] = {"env": "PongNoFrameskip-v4", "interaction": "realtime"}
    players = players_of_evaluations(tmp_path, monkeypatch, [(100, 1), (200, 5)], **in_real_time)
    assert [player.setup.config.realtime.inference_latency for player in players] == ["fixed:10", "fixed:50"]
    own = players_of_evaluations(tmp_path, monkeypatch, [(300, 6)], **in_real_time, inference_latency="fixed:7")
    assert [player.setup.config.realtime.inference_latency for player in own] == ["fixed:7"]


def test_evaluations_start_after_updates_only() -> None:
    """Between two updates, the agent steps and thus the games would depend on when unrolls arrive."""
    done: list[str] = []
    housekeeping = housekeeping_of(lambda name: nullcontext())
    recorded: Any = SimpleNamespace(tick=lambda: done.append("tick"), start_if_due=lambda: done.append("start"))
    housekeeping._evaluation = recorded
    for updates in (False, True, False):
        if updates:
            housekeeping.after_update()
        housekeeping.tick()
    assert done == ["tick", "tick", "start", "tick"]


def housekeeping_of(stage: Callable[[str], Any], *, reports: Callable[[], None] | None = None) -> Housekeeping:
    """Of a run that saves nothing, and reports after each update or never."""
    run = some_run(Path())
    run.progress.stage = stage
    run.summary_written_at = time.monotonic()
    run.progress.steps_since_report = 0 if reports is None else run.config.report.report_period
    housekeeping = Housekeeping(run, SinkList())
    housekeeping._saver = cast(Any, SimpleNamespace(due=int, end_if_diverged=lambda: None))
    if reports is not None:
        housekeeping._report = reports  # type: ignore[method-assign]
    return housekeeping


def test_a_report_counts_as_such_in_the_learners_time() -> None:
    spent: list[str] = []

    class Noting(nullcontext[None]):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def __exit__(self, *error: object) -> None:
            spent.append(self.name)

    housekeeping_of(Noting, reports=lambda: spent.append("the report itself")).after_update()
    assert spent == ["the report itself", "report"]


def test_while_a_run_waits_for_evaluations_it_shows_that_it_is_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[int] = []
    players_of_evaluations(tmp_path, monkeypatch, [(100, 1), (150, 2)], show_alive=lambda: shown.append(1))
    assert not shown, "the games had ended before the run"

    class Slow(Players):
        def __init__(self, children: ChildPool, player: PlayerProcess, processes: int, games: range) -> None:
            super().__init__(children, player, processes, games)
            self.under_way = True

        def wait(self, timeout: float) -> list[GameResult]:
            self.under_way = len(shown) < 3
            return super().wait(timeout) if not self.under_way else []

    monkeypatch.setattr(sys.modules[__name__], "Players", Slow)
    players_of_evaluations(tmp_path, monkeypatch, [(200, 3)], show_alive=lambda: shown.append(1))
    assert len(shown) == 3


def test_the_learner_keeps_the_others_waiting_while_an_evaluation_delays_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a reproducible run. When the run ends meanwhile, the wait is over."""
    kept: list[int] = []

    def keep_alive() -> bool:
        kept.append(len(kept))
        return len(kept) < 3

    monkeypatch.setattr(Players, "wait", lambda self, timeout: [])
    monkeypatch.setattr(PeriodicEvaluation, "finish", lambda self: None)
    monkeypatch.setattr(Players, "__init__", lambda self, *_: setattr(self, "under_way", True))
    moments = [(100, 1), (200, 2)]
    players_of_evaluations(tmp_path, monkeypatch, moments, keep_alive, reproducible=True)
    assert kept == [0, 1, 2]
