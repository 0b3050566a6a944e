"""Runs that end at a mean return."""

import json
from pathlib import Path
from typing import Any

import pytest

from options.rules import UsageError
from run_files.checkpoint import find_checkpoint
from tests.catch import make_catch
from tests.training.catch_runs import catch_run, reports, resume_run

pytestmark = pytest.mark.slow

# Every game of Catch takes 5 steps and has a return of −1 or 1, so the window is full after 30 games.
GOAL: dict[str, Any] = {"environment_max_steps": 3_000, "avg_buff_size": 30, "stop_at_return": -1.0, "console": "plain"}


def test_a_run_ends_in_good_order_at_its_mean_return_and_goes_on_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = catch_run(tmp_path, **GOAL, reproducible=True, eval_period=100, eval_episode_count=2)
    out = capsys.readouterr().out.splitlines()
    saved, last = find_checkpoint(str(folder)), reports(folder)[-1]
    assert 150 <= saved.agent_steps == last["agent_steps"] < 500
    assert last["episodes"] >= 30
    assert any(line.startswith(f"finished at {saved.agent_steps} agent steps") for line in out)
    assert "the mean return of the last 30 games reached --stop_at_return=-1" in out
    assert out[-1] == f"resume with: python main.py --op_mode=train_w_load --load_model_url={folder}"
    assert (folder / "evaluations.jsonl").exists()
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["status"], summary["why"]) == (
        "finished",
        "the mean return of the last 30 games reached --stop_at_return=-1",
    )

    with pytest.raises(UsageError, match=r"^--stop_at_return=-1 is already reached"):
        resume_run(folder, make_catch, stop_at_return=-1.0)
    child = resume_run(folder, make_catch, environment_max_steps=500, eval_period=0)
    assert find_checkpoint(str(child)).agent_steps == 500
    assert "--stop_at_return=-1 was reached, so the run goes on without it" in capsys.readouterr().out


def test_a_goal_that_was_not_reached_is_inherited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = catch_run(tmp_path, **{**GOAL, "environment_max_steps": 100})
    child = resume_run(folder, make_catch, environment_max_steps=3_000)
    assert 150 <= find_checkpoint(str(child)).agent_steps < 500
    assert "the run ends when the mean return of the last 30 games reaches -1" in capsys.readouterr().out
