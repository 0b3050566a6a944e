"""`summary.json` of runs that finish, are stopped, fail or are killed."""

import json
import re
import shlex
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from option_flags import OPTIONS
from options.command_line import given_flags
from processes.pool import RunFailedError
from run_files.checkpoint import read_checkpoint
from run_files.run_folder import BEST
from tests.catch import make_catch
from tests.training.catch_runs import catch_run, reports, resume_run
from tests.training.some_run import some_progress, some_run
from training import summary as summary_module
from training import train as training
from training.summary import write_summary

pytestmark = pytest.mark.slow

METRICS = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")


def summary_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "summary.json").read_text()))


def test_a_finished_run(saved_run: Path) -> None:
    folder, summary, last = saved_run, summary_of(saved_run), reports(saved_run)[-1]
    best = read_checkpoint(folder / "checkpoints" / BEST)
    same = ("agent_steps", "frames", "updates", "episodes", "return_mean", "return_max")
    assert {name: summary[name] for name in same} == {name: last[name] for name in same}
    assert (summary["status"], summary["why"]) == ("finished", "--environment_max_steps=1000 is reached")
    assert summary["steps_per_second"] == pytest.approx(1_000 / summary["seconds"])
    assert last["time"] <= summary["time"] <= time.time()
    assert summary["best_return_mean"] == best.content["progress"]["best_return_mean"]
    assert (summary["checkpoint"], summary["best_at_agent_steps"]) == ("checkpoints/best.pt", best.agent_steps)
    words = shlex.split(summary["go_on"].removeprefix("python main.py "))
    assert given_flags(words, OPTIONS) == {
        "op_mode": "train_w_load",
        "load_model_url": str(folder),
        "environment_max_steps": 2_000,
    }
    rows = METRICS.split("| field of the summary |")[1].splitlines()
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row.partition(" | ")[0]) if row[:1] == "|"}
    assert documented == set(summary)


@pytest.mark.parametrize("status", ["stopped", "failed"])
def test_a_run_that_is_stopped_or_fails(
    tmp_path: Path, saved_run: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    def loop(*_: object) -> None:
        """As if a signal came, or the run failed, before the first unroll."""
        if status == "failed":
            raise RunFailedError("the disk\nburns.")

    monkeypatch.setattr(training, "training_loop", loop)
    with pytest.raises(RunFailedError) if status == "failed" else nullcontext():
        resume_run(saved_run, make_catch, results_dir=str(tmp_path), environment_max_steps=2_000)
    (folder,) = tmp_path.iterdir()
    summary = summary_of(folder)
    why = {"stopped": "a signal asked the run to stop", "failed": "the disk\nburns."}[status]
    assert (summary["status"], summary["why"], summary["agent_steps"]) == (status, why, 1_000)
    assert summary["checkpoint"] == "checkpoints/best.pt"


def test_a_run_says_running_at_its_start_and_at_each_report_and_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So this is what remains of a run that is killed. A run by the clock may take minutes until it reports."""
    written: list[dict[str, Any]] = []
    monkeypatch.setattr(summary_module, "write_json", lambda path, value: written.append(value))
    monkeypatch.setattr(summary_module, "LEAST_SECONDS", 0.0)
    catch_run(tmp_path, environment_max_steps=1_000, report_period=1_000, save_model_period=5)
    *while_running, last = written
    assert {(summary["status"], summary["why"]) for summary in while_running} == {("running", None)}
    assert last["status"] == "finished"
    steps = [summary["agent_steps"] for summary in written]
    assert steps == sorted(steps) and steps[0] == 0 and steps[-2:] == [1_000, 1_000]
    before_the_report = [summary for summary in while_running if summary["agent_steps"] < 1_000]
    assert before_the_report[0]["go_on"] is None
    assert all(summary["checkpoint"] and summary["go_on"] for summary in before_the_report[1:])
    assert len(before_the_report) > 2


def test_the_summary_is_renewed_every_few_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncing it to the disk takes time, but the dashboard takes a run that is silent for long as killed."""
    written: list[str] = []
    monkeypatch.setattr(summary_module, "write_json", lambda path, value: written.append(value["status"]))
    run = some_run(tmp_path, progress=some_progress())
    write_summary(run)
    write_summary(run, if_due=True)
    assert written == ["running"]
    monkeypatch.setattr(summary_module, "LEAST_SECONDS", 0.0)
    write_summary(run, if_due=True)
    assert written == ["running"] * 2


def test_a_summary_that_cannot_be_written_does_not_end_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(summary_module, "write_json", full)
    write_summary(some_run(tmp_path, progress=some_progress()))
    assert not (tmp_path / "summary.json").exists()
