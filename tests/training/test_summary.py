"""`summary.json` of runs that finish, are stopped, fail or are killed."""

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from option_flags import OPTIONS, Config
from options.command_line import given_flags
from processes.pool import RunFailedError
from run_files.checkpoint import find_checkpoint, read_checkpoint
from run_files.run_folder import BEST
from tests.catch import make_catch
from tests.training.catch_runs import CATCH, catch_run, reports, resume_run
from tests.training.some_run import some_progress, some_run
from training import summary as summary_module
from training import train as training
from training.summary import SummaryFile
from training.train import train

pytestmark = pytest.mark.slow

METRICS = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")


def summary_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "summary.json").read_text()))


def test_a_finished_run(tmp_path: Path) -> None:
    begun = time.time()
    folder = catch_run(tmp_path, environment_max_steps=1_000)
    summary, last = summary_of(folder), reports(folder)[-1]
    best = read_checkpoint(folder / "checkpoints" / BEST)
    same = ("agent_steps", "frames", "updates", "episodes", "return_mean", "return_max")
    assert {name: summary[name] for name in same} == {name: last[name] for name in same}
    assert (summary["status"], summary["why"]) == ("finished", "--environment_max_steps=1000 is reached")
    assert summary["steps_per_second"] == pytest.approx(1_000 / summary["seconds"])
    assert begun < last["time"] <= summary["time"] <= time.time()
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


def test_a_resumed_run_that_reaches_its_return(tmp_path: Path) -> None:
    first = catch_run(tmp_path, environment_max_steps=600)
    second = resume_run(first, make_catch, environment_max_steps=5_000, avg_buff_size=200, stop_at_return=-1.0)
    summary = summary_of(second)
    assert (summary["status"], summary["why"]) == (
        "finished",
        "the mean return of the last 200 games reached --stop_at_return=-1",
    )
    assert summary["agent_steps"] >= 1_000 and summary["go_on"].endswith(str(second))


def test_a_run_that_is_stopped_or_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_early(*_: object) -> None:
        """As if a signal came before the first unroll."""

    def fail(*_: object) -> None:
        raise RunFailedError("the disk\nburns.")

    for number, (loop, status, why) in enumerate(
        [(stop_early, "stopped", "a signal asked the run to stop"), (fail, "failed", "the disk\nburns.")]
    ):
        monkeypatch.setattr(training, "training_loop", loop)
        results = tmp_path / str(number)
        config = Config.from_flags({**CATCH, "results_dir": str(results)})
        if status == "failed":
            with pytest.raises(RunFailedError):
                train(config, make_catch)
        else:
            train(config, make_catch)
        (folder,) = results.iterdir()
        summary = summary_of(folder)
        assert (summary["status"], summary["why"], summary["agent_steps"]) == (status, why, 0)
        assert folder / summary["checkpoint"] == find_checkpoint(str(folder)).path, "there is no best one yet"


def test_a_run_says_running_at_its_start_and_at_each_report_and_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So this is what remains of a run that is killed."""
    written: list[dict[str, Any]] = []
    monkeypatch.setattr(summary_module, "write_json", lambda path, value: written.append(value))
    monkeypatch.setattr(summary_module, "LEAST_SECONDS", 0.0)
    folder = catch_run(tmp_path, environment_max_steps=2_000)
    seen = [(summary["status"], summary["agent_steps"]) for summary in written]
    steps = [0, *(report["agent_steps"] for report in reports(folder))]
    assert seen == [*(("running", number) for number in steps), ("finished", 2_000)]
    assert [summary["why"] for summary in written[:-1]] == [None] * len(steps)


def test_reports_that_come_soon_after_another_leave_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Syncing it to the disk would take most of the time of a fast environment. The end is always written."""
    written: list[tuple[str, int]] = []
    monkeypatch.setattr(
        summary_module, "write_json", lambda path, value: written.append((value["status"], value["agent_steps"]))
    )
    monkeypatch.setattr(summary_module, "LEAST_SECONDS", 1e6)
    folder = catch_run(tmp_path, environment_max_steps=2_000)
    assert len(reports(folder)) > 1 and written == [("running", 0), ("finished", 2_000)]


def test_a_run_that_waits_for_long_is_seen_to_be_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dashboard would say that it was killed."""
    written: list[str] = []
    monkeypatch.setattr(summary_module, "write_json", lambda path, value: written.append(value["status"]))
    with SummaryFile(some_run(tmp_path, progress=some_progress())) as summary:
        summary.write_if_due()
        assert written == ["running"]
        monkeypatch.setattr(summary_module, "LEAST_SECONDS", 0.0)
        summary.write_if_due()
        assert written == ["running"] * 2


def test_a_checkpoint_is_in_the_summary_before_the_next_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run by the clock may take minutes until it reports."""
    written: list[dict[str, Any]] = []
    monkeypatch.setattr(summary_module, "write_json", lambda path, value: written.append(value))
    catch_run(tmp_path, environment_max_steps=2_000, report_period=2_000, save_model_period=5)
    before_the_report = [summary for summary in written if summary["agent_steps"] < 2_000]
    assert before_the_report[0]["go_on"] is None
    assert all(summary["checkpoint"] and summary["go_on"] for summary in before_the_report[1:])
    assert len(before_the_report) > 2


def test_the_summary_has_evaluations_that_end_after_training(tmp_path: Path) -> None:
    folder = catch_run(tmp_path, environment_max_steps=1_000, eval_period=1_000, eval_episode_count=2)
    summary = summary_of(folder)
    assert summary["status"] == "finished" and summary["best_eval_return_mean"] is not None
    assert summary["steps_per_second"] == pytest.approx(1_000 / summary["seconds"])


def test_a_summary_that_cannot_be_written_does_not_end_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(summary_module, "write_json", full)
    folder = catch_run(tmp_path, environment_max_steps=500)
    assert find_checkpoint(str(folder)).agent_steps == 500 and not (folder / "summary.json").exists()
