"""The results folder: what is found and read again, the rows of the list, and that no name leads out of it."""

import ast
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from dashboard.results import AT_WORK, FAILED, FINISHED, STOPPED, UNREADABLE, PageError, Results, RunRow, words_about
from tests.dashboard.some_runs import NOW, append_report, write_run, write_sweep


def rows_of(root: Path) -> dict[str, RunRow]:
    return {row.name: row for row in Results(root, lambda: NOW).rows()[0]}


def look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let so much time pass that the folder is looked at again."""
    later = time.monotonic() + 100
    monkeypatch.setattr(time, "monotonic", lambda: later)


# --- What is told of each run ---


def test_a_run_has_what_tells_it_from_the_others_its_start_its_duration_and_its_mean_speed(tmp_path: Path) -> None:
    write_run(tmp_path / "CartPole-v1_1795372038", lr=2e-4, tags="paper")
    write_run(tmp_path / "other", seed=2, status="running")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    rows = rows_of(tmp_path)
    words = {folder.name: about for folder, about in words_about([*rows.values()]).items()}
    assert words == {"CartPole-v1_1795372038": "seed 1 · lr 0.0002 · paper", "other": "seed 2"}
    begun = time.strftime("%d %b %y %H:%M", time.localtime(1795372038))
    assert rows["CartPole-v1_1795372038"].times == f"{begun} · 0m20s · 1,000 steps/s"
    assert rows["other"].times.endswith(" · 0m20s · 1,000 steps/s")


def test_notes_are_kept_in_the_folder_of_the_run_and_no_link_is_followed(tmp_path: Path) -> None:
    root = tmp_path / "results"
    folder, other = write_run(root / "run"), write_run(root / "other", seed=2)
    write_run(tmp_path / "outside")
    results = Results(root)
    results.write_notes(folder, "the disk was slow\nand full")
    assert (folder / "notes.txt").read_text() == "the disk was slow\nand full"
    (tmp_path / "secret").write_text("secret")
    (other / "notes.txt").symlink_to(tmp_path / "secret")
    rows = rows_of(root)
    assert (rows["run"].notes, rows["other"].notes) == ("the disk was slow\nand full", "")
    assert words_about([*rows.values()])[folder] == "seed 1 · the disk was slow"
    results.write_notes(other, "mine")
    assert (tmp_path / "secret").read_text() == "secret" and (other / "notes.txt").read_text() == "mine"
    with pytest.raises(PageError):
        results.write_notes(tmp_path / "outside", "x")
    folder.chmod(0o500)
    if os.geteuid():  # root may write everywhere
        with pytest.raises(PageError, match=r"notes\.txt cannot be written"):
            results.write_notes(folder, "x")
    folder.chmod(0o700)


# --- What is found ---


def test_runs_and_sweeps_are_found_at_any_place_but_not_in_runs(tmp_path: Path) -> None:
    single = write_run(tmp_path / "real" / "Pong_1")
    write_run(single / "export" / "Inner_1")
    write_sweep(tmp_path / "real" / "more" / "sweep", {"a": {}, "b": {}})
    (tmp_path / "real" / "notes.txt").write_text("nothing")
    write_run(tmp_path / "real" / ".trash" / "Pong_0")
    (tmp_path / "results").symlink_to(tmp_path / "real")
    results = Results(tmp_path / "results")
    runs, sweeps = results.find()
    assert {results.name(run) for run in runs} == {"Pong_1", "more/sweep/a/Run_0", "more/sweep/b/Run_1"}
    assert [results.name(sweep) for sweep in sweeps] == ["more/sweep"]
    assert results.run("Pong_1") == single


@pytest.mark.parametrize(
    "name", ["../outside", "..", "/etc", "link", "run/../../outside", "missing", "\0", "a" * 5000, "loop"]
)
def test_names_that_lead_out_of_the_folder_or_nowhere_are_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "results"
    write_run(tmp_path / "outside")
    write_run(root / "run")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root / "loop")
    results = Results(root)
    with pytest.raises(PageError) as refused:
        results.run(name)
    assert "config.json" not in str(refused.value)
    assert [results.name(run) for run in results.find()[0]] == ["run"]


def test_folders_of_something_else_are_named_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    results = Results(tmp_path)
    with pytest.raises(PageError, match=r"folder is not the folder of a run: it has no config\.json\."):
        results.run("folder")
    with pytest.raises(PageError, match=r"folder is not the folder of a sweep: it has no sweep\.json\."):
        results.sweep("folder")


def test_a_parent_outside_of_the_results_folder_is_not_read(tmp_path: Path) -> None:
    parent = write_run(tmp_path / "outside" / "parent", reports=5)
    child = write_run(tmp_path / "results" / "child", reports=3, parent={"run": str(parent), "agent_steps": 5000})
    for root, reports in ((tmp_path / "results", 3), (tmp_path, 8)):
        data = Results(root).reader(child)
        data.refresh()
        assert len(data.history.curve("agent_steps").x) == reports


def test_every_name_leads_to_its_folder_but_one_that_a_page_cannot_show_is_left_out(tmp_path: Path) -> None:
    for name in ('100% "x" <i>', "Püng_1"):
        write_run(tmp_path / name, why="in results/\udcff", results_dir="results/\udcff")
    for odd in (b"Pong_\xff", b"Pong\n1"):
        write_run(tmp_path / os.fsdecode(odd))
    results = Results(tmp_path)
    rows, _ = results.rows()
    assert {row.name for row in rows} == {'100% "x" <i>', "Püng_1"}
    for row in rows:
        assert results.run(row.name) == tmp_path / row.name
        assert json.dumps([row.why, dict(row.options)], ensure_ascii=False).encode()


# --- Rows ---


@pytest.mark.parametrize(
    ("written", "state", "why"),
    [
        ({"status": "running"}, AT_WORK, ""),
        ({"status": "running", "age": 7200}, STOPPED, "It has not written anything for a while"),
        ({"status": "finished"}, FINISHED, ""),
        ({"status": "stopped", "why": "by CTRL+C", "age": 7200}, STOPPED, "by CTRL+C"),
        ({"status": "failed", "why": "the disk is full"}, FAILED, "the disk is full"),
        ({"status": "nonsense", "age": 7200}, STOPPED, "It has not written"),
        # A slow run is at work between two reports: a million steps at 1,000 per second take 17 minutes.
        ({"status": "running", "age": 900, "report_period": 10**6}, AT_WORK, ""),
        # And before its first checkpoint: without a report, there is no speed.
        ({"status": "running", "age": 900, "reports": 0, "save_model_minutes": 5}, STOPPED, "It has not written"),
        ({"status": "running", "age": 900, "reports": 0, "save_model_minutes": 20}, AT_WORK, ""),
    ],
)
def test_the_state_of_a_run(tmp_path: Path, written: dict[str, Any], state: str, why: str) -> None:
    write_run(tmp_path / "run", environment_max_steps=10**6, **written)
    row = rows_of(tmp_path)["run"]
    assert (row.state, row.why[: len(why)]) == (state, why)
    assert bool(why) == bool(row.why)


def test_the_numbers_of_a_run(tmp_path: Path) -> None:
    write_run(tmp_path / "run", env="BreakoutNoFrameskip-v4", final_return=42.0, age=60, environment_max_steps=80_000)
    row = rows_of(tmp_path)["run"]
    assert (row.game, row.figures["agent_steps"], row.figures["done"]) == ("Breakout", 20_000, 0.25)
    assert row.text("seconds_left") == "1m00s"
    assert (row.figures["return_mean"], row.figures["return_max"]) == (42.0, 44.0)
    assert row.figures["steps_per_second"] == 1000.0
    assert row.written == NOW - 60


def test_files_are_read_again_only_when_they_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "gone"):
        write_run(tmp_path / name, status=None)
    results = Results(tmp_path, lambda: NOW)
    before = {row.name: row.figures for row in results.rows()[0]}
    append_report(tmp_path / "b", 21)
    for path in [*(tmp_path / "gone").iterdir(), tmp_path / "gone"]:
        path.rmdir() if path.is_dir() else path.unlink()
    assert results.row("gone") is not None, "too soon"
    look_again(monkeypatch)
    after = {row.name: row.figures for row in results.rows()[0]}
    assert after.keys() == {"a", "b"} and after["a"] is before["a"]
    assert after["b"]["time"] > before["b"]["time"]


def test_a_folder_that_takes_long_to_read_is_looked_at_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0]).__next__  # looking takes a second
    with monkeypatch.context() as patched:
        patched.setattr(time, "thread_time", clock)
        patched.setattr(time, "monotonic", lambda: 1000.0)
        results = Results(tmp_path)
        assert results.rows() == ([], [])
    write_run(tmp_path / "new")
    for now, runs in ((1199.0, 0), (1201.0, 1)):
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        assert len(results.rows()[0]) == runs


def test_runs_know_their_sweep_which_may_be_the_results_folder_itself(tmp_path: Path) -> None:
    write_sweep(tmp_path / "lr", {"slow": {"lr": 1e-4}, "fast": {"lr": 1e-3}})
    write_sweep(tmp_path / "lr" / "a", {"inner": {"seed": 2}})
    write_run(tmp_path / "alone")
    names = {name: row.sweep for name, row in rows_of(tmp_path).items()}
    assert names == {"alone": "", "lr/slow/Run_0": "lr", "lr/fast/Run_1": "lr", "lr/a/inner/Run_0": "lr/a"}
    rows, sweeps = Results(tmp_path / "lr").rows()
    assert {row.name: row.sweep for row in rows} == {"slow/Run_0": ".", "fast/Run_1": ".", "a/inner/Run_0": "a"}
    assert {sweep.name: sweep.counts for sweep in sweeps} == {".": "2 done", "a": "1 done"}


# --- What no run writes. The other runs stay shown ---


@pytest.mark.parametrize("config", ["", "{", "[1]", '{"options": 3}', '{"options": {}, "machine": 4}', "[" * 100_000])
def test_a_foreign_config_is_said(tmp_path: Path, config: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text(config)
    row = rows_of(tmp_path)["run"]
    assert row.state == UNREADABLE and row.why.endswith(".") and abs(row.written - NOW) < 1000


@pytest.mark.parametrize("name", ["metrics.jsonl", "summary.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[1]\n", b"\xff\xfe\n", b'{"agent_steps": "x", "time": 1e999}\n'])
def test_damaged_files_of_a_run_leave_the_others(tmp_path: Path, name: str, content: bytes) -> None:
    write_run(tmp_path / "run")
    (tmp_path / "run" / name).write_bytes(content)
    row = rows_of(tmp_path)["run"]
    assert row.figures["agent_steps"] == 20_000
    assert row.state in (FINISHED, AT_WORK)


@pytest.mark.parametrize("content", ["", "{}", '{"runs": 3}', '{"runs": {"a": 3}}', json.dumps({"runs": {"a": {}}})])
def test_a_damaged_sweep_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "lr").mkdir()
    (tmp_path / "lr" / "sweep.json").write_text(content)
    _, (sweep,) = Results(tmp_path).rows()
    assert sweep.problem == "The sweep.json of lr is damaged or not of a sweep."


def test_no_text_of_others_becomes_an_attribute_of_the_page() -> None:
    """What `props` takes is read as attributes, and a quote in it begins the next one: it takes only constants."""
    for path in (Path(__file__).resolve().parents[2] / "dashboard").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "props":
                assert all(isinstance(argument, ast.Constant) for argument in node.args), f"{path}:{node.lineno}"
