"""Runs of environments that fail now and then, or change the current folder: they train on, and results stay."""

import json
from pathlib import Path
from typing import Any

import pytest

from option_flags import Config
from run_files.checkpoint import find_checkpoint
from tests.training.catch_runs import CATCH, reports
from tests.wrappers.hand_written import FRAGILE, WANDERER
from training.train import train
from wrappers.make_environment import check_environment, make_environment

pytestmark = pytest.mark.slow


def run(env: str, arguments: dict[str, Any], **flags: Any) -> Path:
    """As main.py does it."""
    config = Config.from_flags({**CATCH, "env": env, "env_kwargs": json.dumps(arguments), **flags})
    check_environment(config.environment)
    return train(config, make_environment)


def test_a_reset_that_fails_now_and_then_costs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(FRAGILE, {"every": 20}, results_dir=str(tmp_path), environment_max_steps=1_200, console="plain")
    last = reports(folder)[-1]
    assert last["agent_steps"] == 1_200
    assert last["worker_restarts"] == 0
    assert last["failed_resets"] >= 1  # how many copies come to twenty resets depends on what is learned
    out = capsys.readouterr().out
    assert (
        out.count("Traceback") == out.count("worker 0 tried a reset again that had failed; failed_resets in the") == 1
    )
    assert out.count("ValueError: the server refuses reset 20\n") == 1


def test_resets_that_fail_in_real_time_count_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = {"environment_max_steps": 400, "console": "plain", "interaction": "realtime", "fps": 500.0}
    folder = run(FRAGILE, {"every": 5}, results_dir=str(tmp_path), **flags)
    last = reports(folder)[-1]
    assert last["worker_restarts"] == 0
    assert last["failed_resets"] >= 1
    assert capsys.readouterr().out.count("worker 0 tried a reset again that had failed") == 1


def test_an_environment_that_changes_the_current_folder_does_not_move_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    folder = run(WANDERER, {"folder": str(tmp_path / "elsewhere")}, results_dir="results", environment_max_steps=800)
    assert Path.cwd() == tmp_path
    assert find_checkpoint(str(folder)).updates > 0
    assert folder.resolve().parent == tmp_path / "results"
    assert not list((tmp_path / "elsewhere").iterdir())
