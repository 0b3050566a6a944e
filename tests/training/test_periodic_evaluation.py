"""Evaluations during training: their curve, the best checkpoint, and failures that must not end the run."""

import errno
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import cv2
import gymnasium
import numpy as np
import psutil
import pytest
import torch

from evaluation.logged_game import LoggedGame
from evaluation.parallel_games import GameLog, GameResult, GameSeries
from evaluation.players import PlayerPool
from evaluation.show_games import FilmProcesses
from machine.stop_signals import StopSignals
from option_flags import Config, EnvironmentOptions
from processes.child import start_child
from processes.pool import ChildPool
from run_files.checkpoint import find_checkpoint, read_checkpoint, write_checkpoint
from run_files.run_folder import CHECKPOINTS
from tests.catch import Catch, Picture, make_catch
from tests.processes import spawned
from training import periodic_evaluation as evaluation_module
from training import train as training
from training.checkpoint_saver import CheckpointSaver
from training.periodic_evaluation import PeriodicEvaluation
from training.train import train
from wrappers.atari import ScoreKeeper
from wrappers.environment import MakeWatchedEnvironment, Watch
from wrappers.films import FilmFrames

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {
    **{"worker_count": 1, "envs_per_worker": 8, "r_f_steps": 5, "batch_size": 8, "frames_stacked": 1, "seed": 1},
    **{"network": "impala_shallow", "precision": "float32", "gamma": 0.9, "console": "off", "report_period": 1000},
    **{"environment_max_steps": 2000, "eval_period": 800, "eval_episode_count": 20},
}


def run(results: Path, **flags: Any) -> Path:
    return train(Config.from_flags({**SMALL, "results_dir": str(results), **flags}), make_catch)


def evaluations(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "evaluations.jsonl").read_text().splitlines()]


def test_evaluations_do_not_change_the_training_of_a_reproducible_run(tmp_path: Path) -> None:
    folder = run(tmp_path, reproducible=True, keep_checkpoints=1)
    curve = evaluations(folder)
    assert [line["agent_steps"] for line in curve] == [800, 1600]
    assert [line["eval_episodes"] for line in curve] == [20, 20]
    best = max(curve, key=lambda line: float(line["eval_return_mean"]))
    kept = read_checkpoint(folder / CHECKPOINTS / "best_eval.pt")
    assert (kept.agent_steps, kept.updates) == (best["agent_steps"], best["updates"])
    assert curve[-1]["best_eval_return_mean"] == best["eval_return_mean"]
    names = {path.name for path in (folder / CHECKPOINTS).glob("*.pt")}
    assert names == {"checkpoint_0000000050.pt", "best.pt", "best_eval.pt"}

    without = run(tmp_path, reproducible=True, eval_period=0)
    assert not (without / "evaluations.jsonl").exists()
    ends = [read_checkpoint(next((f / CHECKPOINTS).glob("checkpoint_0000000050.pt"))) for f in (folder, without)]
    weights = [end.content["learner"]["network"] for end in ends]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0]), (
        "evaluations changed the training"
    )


def test_the_best_evaluated_policy_is_kept_after_two_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest checkpoint was written before the evaluation ended, and does not contain its result."""
    first = run(tmp_path, reproducible=True)
    checkpoint = find_checkpoint(str(first))
    checkpoint.content["progress"]["best_eval_mean"] = None
    write_checkpoint(checkpoint.path, checkpoint.content)
    curve = first / "evaluations.jsonl"
    lines = [{**line, "best_eval_return_mean": 5.0} for line in evaluations(first)]
    curve.write_text("".join(json.dumps(line) + "\n" for line in lines))
    best = (first / CHECKPOINTS / "best_eval.pt").read_bytes()

    def resume_run(folder: Path) -> Path:
        parent = find_checkpoint(str(folder))
        own = {"op_mode": "train_w_load", "load_model_url": str(folder), "environment_max_steps": 3000}
        return train(Config.from_flags({**parent.options, **own}), make_catch, parent)

    class StopAtOnce(StopSignals):
        def __init__(self) -> None:
            super().__init__()
            self.requested = True

    with monkeypatch.context() as patches:
        patches.setattr(CheckpointSaver, "save", lambda self, with_replays: None)  # killed before it has saved anything
        patches.setattr(training, "StopSignals", StopAtOnce)
        second = resume_run(first)
    assert not evaluations(second)
    last = resume_run(second)
    assert evaluations(last)[-1]["best_eval_return_mean"] == 5.0
    assert (last / CHECKPOINTS / "best_eval.pt").read_bytes() == best


def test_each_evaluation_has_a_film_of_its_median_game(tmp_path: Path) -> None:
    folder = run(tmp_path, reproducible=True, render=True)
    curve = evaluations(folder)
    films = sorted((folder / "videos").iterdir())
    assert [film.name.partition("_game")[0] for film in films] == [f"evaluation_{line:010}" for line in (800, 1600)]
    for line, film in zip(curve, films, strict=True):
        # A median of 0 means as many returns of −1 as of 1; then a game with the higher one is filmed.
        assert film.stem.endswith(f"_return{line['eval_return_median'] or 1:.0f}")
        assert cv2.VideoCapture(str(film)).get(cv2.CAP_PROP_FRAME_COUNT) == 6


def make_unwatchable(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
    if watch is not None:
        raise RuntimeError("nothing to be seen")
    return make_catch(options, seed)


@pytest.mark.parametrize("folder_is_a_file", [False, True])
def test_a_run_continues_if_its_film_fails(
    tmp_path: Path, folder_is_a_file: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if folder_is_a_file:
        monkeypatch.setattr(evaluation_module, "VIDEOS", "config.json")
    flags = {**SMALL, "results_dir": str(tmp_path), "render": True, "console": "plain"}
    folder = train(Config.from_flags(flags), make_unwatchable)
    assert read_checkpoint(next((folder / CHECKPOINTS).glob("checkpoint_*50.pt"))).agent_steps == 2000
    assert evaluations(folder)
    assert ("File exists" if folder_is_a_file else "nothing to be seen") in capfd.readouterr().out
    assert not spawned()


class Endless(Catch):
    """Catch in which a new ball falls whenever one has landed."""

    def step(self, action: int) -> tuple[Picture, float, bool, bool, dict[str, Any]]:
        picture, reward, landed, _, info = super().step(action)
        if landed:
            super().reset()
        return picture, reward, False, False, info


def make_endless(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
    assert watch is not None
    return ScoreKeeper(FilmFrames(Endless(seed), watch))


def test_films_that_fail_leave_no_file_and_no_process(tmp_path: Path) -> None:
    announced: list[str] = []
    filming = FilmProcesses(tmp_path, ChildPool(announced.append, silence=100.0))
    filming.begin(a_logged_game(10**6, make_endless), "killed", low_priority=True)
    while not list(tmp_path.iterdir()):
        time.sleep(0.01)
    spawned()[0].kill()
    while filming.under_way:
        filming.wait(1.0)
    filming.begin(a_logged_game(5), "given up", low_priority=True)
    filming.close()
    assert announced == [
        f"{tmp_path}/killed_game0_return1.mp4 could not be made: its process was killed by SIGKILL",
        "unfinished videos are dropped",
    ]
    assert not list(tmp_path.iterdir())
    assert not spawned()


def a_logged_game(steps: int, make_environment: MakeWatchedEnvironment = make_catch) -> LoggedGame:
    log = GameLog(np.ones(steps, np.uint8), np.zeros(steps, np.float32))
    environment = EnvironmentOptions(frames_stacked=1)
    series = GameSeries(make_environment=make_environment, environment=environment, seed=(1,))
    return LoggedGame(series, GameResult(0, 1.0, steps, False, log))


@pytest.mark.parametrize("refused", [False, True])
def test_a_run_continues_if_its_evaluation_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], refused: bool
) -> None:
    """The player's process is killed each time it has started, or it cannot be started."""

    def children(announce: Any, *, silence: float) -> ChildPool:
        return ChildPool(announce, silence=silence, start=refuse if refused else start_child)

    def refuse(*_: object) -> Any:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    class KilledPlayers(PlayerPool):
        def wait(self, timeout: float) -> Any:
            for number in self.process_ids():
                psutil.Process(number).kill()
            return super().wait(1.0)

    monkeypatch.setattr(evaluation_module, "ChildPool", children)
    monkeypatch.setattr(evaluation_module, "PlayerPool", KilledPlayers)
    folder = run(tmp_path, console="plain")
    why = (
        "player 0 could not be started (Resource temporarily unavailable"
        if refused
        else "player 0 was killed by SIGKILL"
    )
    assert why in capsys.readouterr().out
    assert evaluations(folder) == []
    assert not list((folder / CHECKPOINTS).glob("*eval*")) and not list((folder / CHECKPOINTS).glob(".*"))
    assert read_checkpoint(next((folder / CHECKPOINTS).glob("checkpoint_*50.pt"))).agent_steps == 2000
    assert not spawned()


@pytest.mark.parametrize(
    "broken",
    [
        "training.periodic_evaluation.SharedWeights",
        "training.periodic_evaluation.kept",
    ],
)
def test_a_run_continues_if_the_system_refuses_the_resources_of_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    def no_room(*_: object) -> Any:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(broken, no_room)
    folder = run(tmp_path, console="plain")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "no evaluation at 800 agent steps: " in line]
    assert "Resource temporarily unavailable" in line and "Errno" not in line
    assert not list((folder / CHECKPOINTS).glob("*eval*")) and not list((folder / CHECKPOINTS).glob(".*"))
    assert read_checkpoint(next((folder / CHECKPOINTS).glob("checkpoint_*50.pt"))).agent_steps == 2000


def test_an_evaluation_that_is_due_at_the_end_starts_after_the_running_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first takes longer than the rest of the training."""
    real = PlayerPool.wait

    def wait(self: PlayerPool, timeout: float) -> list[GameResult]:
        return real(self, timeout) if timeout else []  # during training no game ends

    monkeypatch.setattr(PlayerPool, "wait", wait)
    first, last = evaluations(run(tmp_path))
    assert 800 <= first["agent_steps"] < 1600
    assert last["agent_steps"] == 2000


def test_the_last_checkpoint_is_saved_before_the_wait_for_the_last_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def finish(self: PeriodicEvaluation) -> None:
        (folder,) = tmp_path.iterdir()
        found.append(find_checkpoint(str(folder)).agent_steps)

    monkeypatch.setattr(PeriodicEvaluation, "finish", finish)
    run(tmp_path)
    assert found == [2000]


def test_the_last_line_is_the_resume_command_even_if_an_evaluation_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signal comes while the run waits for the film of the last evaluation."""
    real = FilmProcesses.begin

    def begin(self: FilmProcesses, *arguments: Any, **named: Any) -> None:
        real(self, *arguments, **named)
        if "evaluation_0000001600" in arguments:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(FilmProcesses, "begin", begin)
    folder = run(tmp_path, console="plain", render=True, eval_period=1600)
    announced = capsys.readouterr().out.splitlines()
    assert announced[-1].startswith("resume with: ")
    assert "unfinished videos are dropped" in announced
    assert len(evaluations(folder)) == 1
    assert not spawned()


def resumed(folder: Path, **flags: Any) -> Path:
    parent = find_checkpoint(str(folder))
    own = {"op_mode": "train_w_load", "load_model_url": str(folder)}
    return train(Config.from_flags({**parent.options, **own, **flags}), make_catch, parent)


def test_an_evaluation_that_a_signal_interrupts_is_played_by_the_resumed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = PeriodicEvaluation.tick

    def tick(self: PeriodicEvaluation, timeout: float = 0.0) -> None:
        real(self, timeout)
        if self.under_way:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patches:
        patches.setattr(PeriodicEvaluation, "tick", tick)
        folder = run(tmp_path, console="plain", eval_episode_count=100_000)
    announced = capsys.readouterr().out.splitlines()
    assert sum(line.endswith("agent steps is not finished and is dropped") for line in announced) == 1
    assert not any("waiting for" in line for line in announced)
    assert announced[-1].startswith("resume with: ")
    assert not spawned()
    assert not evaluations(folder)
    stopped_at = find_checkpoint(str(folder)).agent_steps
    assert 800 <= stopped_at < 1600
    first = evaluations(resumed(folder, reproducible=True, eval_episode_count=20))[0]
    assert stopped_at < first["agent_steps"] < 1600


def test_a_longer_run_does_not_repeat_the_last_evaluation(tmp_path: Path) -> None:
    folder = run(tmp_path)
    assert evaluations(folder)[-1]["agent_steps"] >= 1600
    longer = resumed(folder, environment_max_steps=2600)
    assert all(line["agent_steps"] >= 2400 for line in evaluations(longer))


def test_a_resumed_run_plays_no_evaluation_that_was_not_due(tmp_path: Path) -> None:
    """Its parent had none, or a longer time between two."""
    for period in (0, 1_000_000):
        parent = run(tmp_path, eval_period=period, environment_max_steps=1000)
        between = resumed(parent, eval_period=600, environment_max_steps=1100)
        assert not (between / "evaluations.jsonl").exists() or not evaluations(between)
        (line,) = evaluations(resumed(between, environment_max_steps=1700))
        assert line["agent_steps"] >= 1200
