"""The rows of the list: states, numbers, and what is read again."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from dashboard import run_list as run_list_module
from dashboard.results_folder import ResultsFolder
from dashboard.run_list import AT_WORK, FAILED, FINISHED, STOPPED, UNREADABLE, RunList, RunRow
from tests.dashboard.some_runs import NOW, append_report, write_run, write_sweep


def now() -> float:
    return NOW


def look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let so much time pass that the folder is looked at again."""
    later = time.monotonic() + 100
    monkeypatch.setattr(time, "monotonic", lambda: later)


def only_row(folder: Path) -> RunRow:
    (row,) = RunList(ResultsFolder(folder), now).read()[0]
    return row


@pytest.mark.parametrize(
    ("written", "state", "why"),
    [
        ({"status": "running"}, AT_WORK, ""),
        ({"status": "running", "age": 7200}, STOPPED, "It has not written anything for a while"),
        ({"status": "finished"}, FINISHED, ""),
        ({"status": "stopped", "why": "by CTRL+C", "age": 7200}, STOPPED, "by CTRL+C"),
        ({"status": "failed", "why": "the disk is full"}, FAILED, "the disk is full"),
        ({"status": None, "reports": 20}, FINISHED, "It has reached its --environment_max_steps."),
        ({"status": None, "environment_max_steps": 10**6}, AT_WORK, ""),
        ({"status": None, "environment_max_steps": 10**6, "age": 7200}, STOPPED, "It has not written"),
        ({"status": "nonsense", "environment_max_steps": 10**6, "age": 7200}, STOPPED, "It has not written"),
    ],
)
def test_the_state_of_a_run(tmp_path: Path, written: dict[str, Any], state: str, why: str) -> None:
    write_run(tmp_path / "run", **written)
    row = only_row(tmp_path)
    assert (row.state, row.why[: len(why)]) == (state, why)
    assert bool(why) == bool(row.why)


def test_a_slow_run_is_at_work_between_two_reports(tmp_path: Path) -> None:
    """1,000 steps at 1,000 per second take a second; a million take 17 minutes."""
    write_run(tmp_path / "run", status="running", age=900, report_period=10**6)
    assert only_row(tmp_path).state == AT_WORK


@pytest.mark.parametrize(("minutes", "state"), [(5, STOPPED), (20, AT_WORK)])
def test_a_run_is_at_work_until_its_first_checkpoint(tmp_path: Path, minutes: int, state: str) -> None:
    """Without a report there is no speed, so the time until the next report is not known."""
    write_run(
        tmp_path / "run", status="running", age=900, reports=0, environment_max_steps=10**6, save_model_minutes=minutes
    )
    assert only_row(tmp_path).state == state


def test_the_numbers_of_a_run(tmp_path: Path) -> None:
    write_run(tmp_path / "run", env="BreakoutNoFrameskip-v4", final_return=42.0, age=60)
    row = only_row(tmp_path)
    assert (row.name, row.game, row.agent_steps, row.max_steps) == ("run", "Breakout", 20_000, 20_000)
    assert (row.return_mean, row.return_max, row.steps_per_second) == (42.0, 44.0, 1000.0)
    assert row.written == NOW - 60


@pytest.mark.parametrize("config", ["", "{", "[1]", '{"options": 3}', '{"options": {}, "machine": 4}', "[" * 100_000])
def test_a_foreign_config_is_said(tmp_path: Path, config: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text(config)
    row = only_row(tmp_path)
    assert row.state == UNREADABLE and row.why.endswith(".")


@pytest.mark.parametrize("name", ["metrics.jsonl", "summary.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[1]\n", b"\xff\xfe\n", b'{"agent_steps": "x", "time": 1e999}\n'])
def test_damaged_files_of_a_run_leave_the_others(tmp_path: Path, name: str, content: bytes) -> None:
    write_run(tmp_path / "run")
    (tmp_path / "run" / name).write_bytes(content)
    row = only_row(tmp_path)
    assert row.agent_steps == 20_000
    assert row.state in (FINISHED, AT_WORK)


def test_files_are_read_again_only_when_they_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = run_list_module._read_row

    def counted(folder: Path) -> RunRow:
        read.append(folder.name)
        return original(folder)

    monkeypatch.setattr(run_list_module, "_read_row", counted)
    for name in ("a", "b"):
        write_run(tmp_path / name, status=None)
    run_list = RunList(ResultsFolder(tmp_path), now)
    run_list.read()
    assert sorted(read) == ["a", "b"]
    append_report(tmp_path / "b", 21)
    assert run_list.row("b") == run_list.row("b")
    assert len(read) == 2  # too soon
    look_again(monkeypatch)
    row = run_list.row("b")
    assert row is not None and row.agent_steps == 21_000
    assert sorted(read) == ["a", "b", "b"]


def test_deleted_runs_leave_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "run")
    run_list = RunList(ResultsFolder(tmp_path), now)
    assert run_list.row("run") is not None
    for path in (tmp_path / "run").iterdir():
        path.unlink()
    (tmp_path / "run").rmdir()
    look_again(monkeypatch)
    assert run_list.read() == ([], [])


def test_runs_know_their_ancestors(tmp_path: Path) -> None:
    write_run(tmp_path / "a", weights_from={"checkpoint": "pong/1.pt"})
    write_run(tmp_path / "b", parent={"run": str(tmp_path / "a"), "agent_steps": 5})
    write_run(tmp_path / "c", parent={"run": "/moved/since/b", "agent_steps": 6})
    rows = {row.name: row for row in RunList(ResultsFolder(tmp_path), now).read()[0]}
    assert {name: {folder.name for folder in row.ancestors} for name, row in rows.items()} == {
        "a": set(),
        "b": {"a"},
        "c": {"a", "b"},
    }
    assert {row.weights_from for row in rows.values()} == {"pong/1.pt"}


@pytest.mark.parametrize(
    "parent",
    [3, {}, {"run": 3, "agent_steps": 5}, {"run": "/etc", "agent_steps": 5}, {"run": "run", "agent_steps": 5},
     {"run": "loop", "agent_steps": 5}, {"run": "other", "agent_steps": "x"}, {"run": "broken", "agent_steps": 5},
     {"run": "a\0b", "agent_steps": 5}],
)  # fmt: skip
def test_a_parent_that_is_nonsense_is_none(tmp_path: Path, parent: Any) -> None:
    write_run(tmp_path / "other")
    write_run(tmp_path / "run", parent=parent)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    row = RunList(ResultsFolder(tmp_path), now).row("run")
    assert row is not None and row.state == FINISHED and not row.ancestors


def test_runs_know_their_sweep(tmp_path: Path) -> None:
    write_sweep(tmp_path / "lr", {"slow": {"lr": 1e-4}, "fast": {"lr": 1e-3}})
    write_run(tmp_path / "alone")
    rows, (sweep,) = RunList(ResultsFolder(tmp_path), now).read()
    assert {row.name: row.sweep for row in rows} == {"alone": "", "lr/slow/Run_0": "lr", "lr/fast/Run_1": "lr"}
    assert (sweep.name, sweep.statuses) == ("lr", {"slow": "done", "fast": "done"})


def test_the_results_folder_may_be_a_sweep_itself(tmp_path: Path) -> None:
    write_sweep(tmp_path / "lr", {"slow": {"lr": 1e-4}})
    write_sweep(tmp_path / "lr" / "a", {"inner": {"seed": 2}})
    rows, sweeps = RunList(ResultsFolder(tmp_path / "lr"), now).read()
    assert {row.name: row.sweep for row in rows} == {"slow/Run_0": ".", "a/inner/Run_0": "a"}
    assert {sweep.name: sweep.counts for sweep in sweeps} == {".": "1 done", "a": "1 done"}


@pytest.mark.parametrize("content", ["", "{}", '{"runs": 3}', '{"runs": {"a": 3}}', json.dumps({"runs": {"a": {}}})])
def test_a_damaged_sweep_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "lr").mkdir()
    (tmp_path / "lr" / "sweep.json").write_text(content)
    _, (sweep,) = RunList(ResultsFolder(tmp_path), now).read()
    assert sweep.problem == "The sweep.json of lr is damaged or not of a sweep."
