"""Evaluations during training: their curve, the best checkpoint, and failures that must not end the run."""

import errno
import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import gymnasium
import psutil
import pytest
import torch

from evaluation.parallel_games import GameResult
from evaluation.players import PlayerPool
from option_flags import Config, EnvironmentOptions
from options.presets import FRESH_ALONE
from run_files.checkpoint import checkpoint_name, find_checkpoint, read_checkpoint
from run_files.run_folder import CHECKPOINTS
from tests.catch import make_catch
from tests.processes import forked
from tests.training.some_run import some_run
from training import periodic_evaluation as evaluation_module
from training.periodic_evaluation import PeriodicEvaluation
from training.train import train
from wrappers.environment import Watch

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {
    **{"worker_count": 1, "envs_per_worker": 8, "r_f_steps": 5, "batch_size": 8, "frames_stacked": 1, "seed": 1},
    **{"precision": "float32", "gamma": 0.9, "console": "off", "curves": False, "report_period": 1000},
    **{"environment_max_steps": 2000, "eval_period": 800, "eval_episode_count": 20, "replay_parameters": FRESH_ALONE},
}


def run(results: Path, **flags: Any) -> Path:
    return train(Config.from_flags({**SMALL, "results_dir": str(results), **flags}), make_catch)


def evaluations(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "evaluations.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reproducible run with two evaluations and their films; a test that changes files must use `copy_of`."""
    return run(tmp_path_factory.mktemp("evaluated"), reproducible=True, keep_checkpoints=1, render=True)


def test_evaluations_do_not_change_the_training_of_a_reproducible_run(evaluated: Path, tmp_path: Path) -> None:
    folder, curve = evaluated, evaluations(evaluated)
    assert [line["agent_steps"] for line in curve] == [800, 1600]
    assert [line["eval_episodes"] for line in curve] == [20, 20]
    best = max(curve, key=lambda line: float(line["eval_return_mean"]))
    kept = read_checkpoint(folder / CHECKPOINTS / "best_eval.pt")
    assert (kept.agent_steps, kept.updates) == (best["agent_steps"], best["updates"])
    assert curve[-1]["best_eval_return_mean"] == best["eval_return_mean"]
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["status"], summary["best_eval_return_mean"]) == ("finished", best["eval_return_mean"])
    names = {path.name for path in (folder / CHECKPOINTS).glob("*.pt")}
    assert names == {"checkpoint_0000000050.pt", "best.pt", "best_eval.pt"}

    without = run(tmp_path, reproducible=True, eval_period=0)
    assert not (without / "evaluations.jsonl").exists()
    ends = [read_checkpoint(next((f / CHECKPOINTS).glob("checkpoint_0000000050.pt"))) for f in (folder, without)]
    weights = [end.content["learner"]["network"] for end in ends]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0]), (
        "evaluations changed the training"
    )


def test_each_evaluation_has_a_film_of_its_median_game(evaluated: Path) -> None:
    films = sorted((evaluated / "videos").iterdir())
    assert [film.name.partition("_game")[0] for film in films] == [f"evaluation_{line:010}" for line in (800, 1600)]
    for line, film in zip(evaluations(evaluated), films, strict=True):
        # A median of 0 means as many returns of −1 as of 1; then a game with the higher one is filmed.
        assert film.stem.endswith(f"_return{line['eval_return_median'] or 1:.0f}")
        assert cv2.VideoCapture(str(film)).get(cv2.CAP_PROP_FRAME_COUNT) == 6


def make_unwatchable(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
    if watch is not None:
        raise RuntimeError("nothing to be seen")
    return make_catch(options, seed)


def test_a_run_continues_if_its_film_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = {**SMALL, "results_dir": str(tmp_path), "render": True, "console": "plain", "environment_max_steps": 1000}
    folder = train(Config.from_flags(flags), make_unwatchable)
    assert find_checkpoint(str(folder)).agent_steps <= 1000 and evaluations(folder)
    assert "nothing to be seen" in capfd.readouterr().out
    assert not forked()


def test_a_run_continues_if_its_evaluation_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The player's process is killed each time it has started."""

    class KilledPlayers(PlayerPool):
        def wait(self, timeout: float) -> Any:
            for number in self.children.process_ids():
                psutil.Process(number).kill()
            return super().wait(1.0)

    monkeypatch.setattr(evaluation_module, "PlayerPool", KilledPlayers)
    folder = run(tmp_path, console="plain", environment_max_steps=1000)
    out = capsys.readouterr().out
    assert "agent steps failed: " in out and "player 0 was killed by SIGKILL" in out
    assert evaluations(folder) == []
    assert not list((folder / CHECKPOINTS).glob("*eval*")) and not list((folder / CHECKPOINTS).glob(".*"))
    assert find_checkpoint(str(folder)).updates == 25
    assert not forked()


@pytest.mark.parametrize("broken", ["SharedWeights", "link", "PlayerPool"])
def test_a_run_continues_if_the_system_refuses_the_resources_of_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def no_room(*_: object) -> Any:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(evaluation_module, broken, no_room)
    learner = SimpleNamespace(updates=3, network=torch.nn.Linear(2, 2))
    progress = SimpleNamespace(
        agent_steps=800,
        parent_steps=0,
        frames=0,
        evaluated_steps=0,
        best_eval_mean=None,
        interval=SimpleNamespace(action_ms=None),
    )
    config = Config.from_flags(SMALL)
    given = some_run(tmp_path, config=config, learner=learner, progress=progress)
    saver: Any = SimpleNamespace(folder=tmp_path, saved_updates=3)
    (tmp_path / checkpoint_name(3)).touch()
    evaluation = PeriodicEvaluation(given, saver)
    evaluation.start_if_due()
    assert given.said == ["no evaluation at 800 agent steps: Resource temporarily unavailable"]
    assert not evaluation.under_way
    evaluation.close()
    assert not list(tmp_path.glob(".*"))


def test_an_evaluation_that_is_due_at_the_end_starts_after_the_running_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first takes longer than the rest of the training, whose last checkpoint is saved before the wait."""
    real, saved = PlayerPool.wait, []

    def wait(self: PlayerPool, timeout: float) -> list[GameResult]:
        if not timeout:
            return []  # during training no game ends
        (folder,) = tmp_path.iterdir()
        saved.append(find_checkpoint(str(folder / CHECKPOINTS / "checkpoint_0000000050.pt")).agent_steps)
        return real(self, timeout)

    monkeypatch.setattr(PlayerPool, "wait", wait)
    first, last = evaluations(run(tmp_path))
    assert set(saved) == {2000}
    assert 800 <= first["agent_steps"] < 1600
    assert last["agent_steps"] == 2000


def test_the_last_line_is_the_resume_command_even_if_an_evaluation_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signal comes while the run waits for the film of the last evaluation."""
    real = PlayerPool.film

    def film(self: PlayerPool, number: int, film: Any) -> None:
        real(self, number, film)
        if "evaluation_0000001600" in film.path.name:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(PlayerPool, "film", film)
    folder = run(tmp_path, console="plain", render=True, eval_period=1600)
    announced = capsys.readouterr().out.splitlines()
    assert announced[-1].startswith("resume with: ")
    assert "unfinished videos are dropped" in announced
    assert len(evaluations(folder)) == 1
    assert not forked()


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
    assert not forked()
    assert not evaluations(folder)
    stopped_at = find_checkpoint(str(folder)).agent_steps
    assert 800 <= stopped_at < 1600
    first = evaluations(resumed(folder, reproducible=True, eval_episode_count=20))[0]
    assert stopped_at < first["agent_steps"] < 1600
