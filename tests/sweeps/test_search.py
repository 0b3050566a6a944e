"""Searches with Optuna: trials, runs that are given up, interruptions."""

import json
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sweeps.files import DamagedFiles
from sweeps.step_values import StepValues
from tests.options.words import parse
from tests.sweeps.fake_sweeps import LEARNER, command, interrupt, is_running, rows, run_sweep, start_sweep, starts, when

pytest.importorskip("optuna")
pytestmark = pytest.mark.slow
RANGES = {
    "lr": {"low": 3e-3, "high": 3e-2, "log": True},
    "batch_size": {"choices": [8, 16]},
    "r_f_steps": {"low": 10, "high": 40, "step": 10},
}


def definition(**others: Any) -> dict[str, Any]:
    no_pruner = {"type": "none"}
    return {
        "search": RANGES,
        "trials": 6,
        "sampler": {"type": "tpe", "startup_trials": 3},
        "pruner": no_pruner,
        **others,
    }


def search(words: Sequence[str]) -> int:
    return run_sweep(words, LEARNER)


def flags_of(folder: Path) -> list[tuple[Any, ...]]:
    runs = json.loads((folder / "sweep.json").read_text())["runs"]
    return [tuple(entry["flags"][name] for name in RANGES) for entry in runs.values()]


def test_a_search_finds_the_best_flags_and_names_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sweep"
    assert search(command(folder, definition())) == 0
    lines = capsys.readouterr().out.splitlines()
    table = list(rows(folder).values())
    assert len(table) == 6 and {row["status"] for row in table} == {"done"}
    returns = [float(row["return_mean"]) for row in table]
    assert returns == sorted(returns, reverse=True)
    best = max(flags_of(folder))
    assert returns[0] == pytest.approx(1000 * best[0])
    assert all(
        3e-3 <= lr <= 3e-2 and size in (8, 16) and steps in (10, 20, 30, 40) for lr, size, steps in flags_of(folder)
    )
    assert len(set(flags_of(folder))) == 6
    assert f"lr={best[0]}, batch_size={best[1]}, r_f_steps={best[2]}" in lines[-2]
    flags = parse(shlex.split(lines[-1].partition("python main.py ")[2])).flags()
    assert (flags["lr"], flags["batch_size"], flags["r_f_steps"], flags["environment_max_steps"]) == (*best, 1000)


def test_an_interrupted_search_goes_on_with_the_same_trials(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert search(command(whole, definition(flags={"gamma": 0.9}))) == 0
    words = command(parts, definition(flags={"gamma": 0.9}))
    for trial in ("trial_001", "trial_004"):
        when(lambda trial=trial: is_running(parts / trial), interrupt)  # type: ignore[misc]
        search(words)
        assert len(flags_of(parts)) < 6
    assert search(words) == 0
    assert flags_of(parts) == flags_of(whole)
    assert [row["status"] for row in rows(parts).values()] == ["done"] * 6


def test_more_trials_than_before_continue_the_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    assert search(command(folder, definition(trials=2))) == 0
    first = flags_of(folder)
    state = folder / "sweep.json"
    content = json.loads(state.read_text())
    del content["search"]["stop_at_return"]  # as an older version has left it
    state.write_text(json.dumps(content))
    assert search(command(folder, definition(trials=3))) == 0
    assert "2 of 3 runs are done already" in capsys.readouterr().out
    assert flags_of(folder)[:2] == first and len(flags_of(folder)) == 3
    assert [len(starts(folder / f"trial_00{n}")) for n in range(3)] == [1, 1, 1]


def test_a_hopeless_run_is_stopped_with_a_checkpoint_and_stays_pruned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs below an lr of 0.002 wait at half of their steps until they are stopped."""
    folder = tmp_path / "sweep"
    pruner = {"type": "median", "startup_trials": 1, "warmup_steps": 300, "interval_steps": 100}
    ranges = {"lr": {"choices": [0.01, 0.001]}}
    words = command(folder, definition(search=ranges, trials=6, sampler={"type": "random", "seed": 2}, pruner=pruner))
    assert search(words) == 0
    out = capsys.readouterr().out
    table = rows(folder)
    by_lr = {(row["differs"], row["status"]) for row in table.values()}
    assert by_lr == {("lr=0.01", "done"), ("lr=0.001", "pruned")}
    assert [row["status"] for row in table.values()] == sorted(row["status"] for row in table.values())
    pruned = next(name for name, row in table.items() if row["status"] == "pruned")
    assert f"{pruned}  is worse than the others were" in out
    assert f"{pruned}  is pruned at 500 agent steps" in out
    assert (folder / pruned / "signals.txt").read_text() == "SIGINT"
    assert "best of the trials that reached their end" in out and "lr=0.01" in out.splitlines()[-2]

    assert search(words) == 0
    assert len(starts(folder / pruned)) == 1
    assert "6 of 6 runs are done already" in capsys.readouterr().out


def test_a_hopeless_run_whose_sweep_was_killed_is_pruned_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    pruner = {"type": "median", "startup_trials": 1, "warmup_steps": 300, "interval_steps": 100}
    ranges = {"lr": {"choices": [0.01, 0.001]}}
    seeded = {"type": "random", "seed": 2}
    words = command(folder, definition(search=ranges, trials=6, sampler=seeded, pruner=pruner))
    assert search(words) == 0
    names = [name for name, row in sorted(rows(folder).items()) if row["status"] == "pruned"]
    state = folder / "sweep.json"
    content = json.loads(state.read_text())
    del content["runs"][names[-1]]["objective"]
    content["runs"][names[-1]]["status"] = "running"
    state.write_text(json.dumps(content))
    assert search(words) == 0
    assert rows(folder)[names[-1]]["status"] == "pruned"
    assert len(starts(folder / names[-1])) == 1


def test_a_search_that_was_killed_watches_its_run_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, definition(flags={"gamma": 0.6}, trials=1))
    sweep = start_sweep(words, LEARNER)
    while not is_running(folder / "trial_000"):
        time.sleep(0.01)
    sweep.kill()
    sweep.wait()
    state = folder / "sweep.json"
    state.write_text(state.read_text().replace("running", "waiting"))
    when(lambda: "running" in state.read_text(), (folder / "trial_000" / "go").touch)
    assert search(words) == 0
    assert "trial_000  is running already; waiting for it" in capsys.readouterr().out
    assert starts(folder / "trial_000") == [["train"]]
    assert rows(folder)["trial_000"]["status"] == "done"


def test_a_trial_that_fails_is_told_to_the_sampler_and_started_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, definition(search={"gamma": {"choices": [0.5, 0.9]}}, flags={"lr": 0.01}, trials=4))
    assert search(words) == 1
    statuses = {row["differs"]: row["status"] for row in rows(folder).values()}
    assert statuses == {"gamma=0.5": "failed", "gamma=0.9": "done"}
    failed = next(name for name, row in rows(folder).items() if row["status"] == "failed")
    assert search(words) == 1
    assert len(starts(folder / failed)) == 2 and len(rows(folder)) == 4
    assert "gamma=0.9" in capsys.readouterr().out.splitlines()[-3]


def test_trials_that_failed_at_once_are_drawn_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With no report, they have told the sampler nothing, so their old values are no better than new ones."""
    folder = tmp_path / "sweep"
    words = command(folder, definition(trials=6))
    assert run_sweep(words, tmp_path / "nothing.py") == 1
    assert "3 runs in a row failed before their first report" in capsys.readouterr().out
    state = folder / "sweep.json"
    content = json.loads(state.read_text())
    assert [entry["status"] for entry in content["runs"].values()] == ["failed"] * 3
    for entry in content["runs"].values():
        entry["flags"]["lr"] = 0.02  # no sampler with this seed draws it
    state.write_text(json.dumps(content))
    assert search(words) == 0
    whole = tmp_path / "whole"
    assert search(command(whole, definition(trials=6))) == 0
    assert flags_of(folder) == flags_of(whole)


def test_values_that_are_refused_together_count_as_a_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--rho_const must be at least --c_const."""
    folder = tmp_path / "sweep"
    ranges = {"rho_const": {"choices": [1.0, 2.0]}, "c_const": {"choices": [0.5, 1.5]}}
    words = command(folder, definition(search=ranges, flags={"lr": 0.01}, trials=12, sampler={"type": "random"}))
    for _ in range(2):
        assert search(words) == 0
        out = capsys.readouterr().out
        assert "was not started: the sweep's run trial_" in out and "--rho_const" in out
        refused = out.count("was not started")
        assert len(rows(folder)) == 12 - refused > 0
        assert "rho_const=1.0, c_const=1.5" not in {row["differs"] for row in rows(folder).values()}


@pytest.mark.parametrize(
    ("other", "key"),
    [
        ({"search": {**RANGES, "gamma": {"low": 0.9, "high": 0.99}}}, "search"),
        ({"sampler": {"type": "random"}}, "sampler"),
        ({"pruner": {"type": "median"}}, "pruner"),
        ({"flags": {"stop_at_return": 100}}, "stop_at_return"),
    ],
)
def test_another_search_needs_another_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], other: dict[str, Any], key: str
) -> None:
    folder = tmp_path / "sweep"
    assert search(command(folder, definition(trials=1))) == 0
    assert search(command(folder, definition(trials=1, **other))) == 2
    assert f"holds a search with another {key}" in capsys.readouterr().err
    assert search(command(folder, {"runs": {"a": {}}})) == 2
    assert "holds other runs (trial_000, ...)" in capsys.readouterr().err


def test_a_search_does_not_take_the_folder_of_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    assert search(command(folder, {"runs": {"a": {"lr": 0.01}}})) == 0
    assert search(command(folder, definition())) == 2
    assert "holds other runs (a_seed1, ...)" in capsys.readouterr().err


@pytest.mark.parametrize("damage", [{"flags": {}}, {"values": {"a": 1}}, {"values": 3}, {"objective": "much"}])
def test_a_damaged_state_of_a_search_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: dict[str, Any]
) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, definition(trials=1))
    assert search(words) == 0
    state = folder / "sweep.json"
    content = json.loads(state.read_text())
    content["runs"]["trial_000"] |= damage
    state.write_text(json.dumps(content))
    assert search(words) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and "holds a sweep.json that is damaged" in errors


def test_values_are_those_of_the_first_report_from_each_multiple_on(tmp_path: Path) -> None:
    values = StepValues(100, 0, DamagedFiles(print))
    assert values.read_new(tmp_path) == {}
    first = tmp_path / "Game_1" / "metrics.jsonl"
    first.parent.mkdir()
    lines = [{"agent_steps": 90, "return_mean": 1.0}, {"agent_steps": 110, "return_mean": None}]
    lines += [{"agent_steps": 120, "return_mean": 2.0}, {"agent_steps": 330, "return_mean": 3.0}]
    first.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"agent_steps": 4')
    assert values.read_new(tmp_path) == {100: 2.0, 200: 3.0, 300: 3.0}
    with first.open("a") as file:
        file.write('00, "return_mean": 4}\n')
    assert values.read_new(tmp_path) == {400: 4.0}
    resumed = tmp_path / "Game_2" / "metrics.jsonl"
    resumed.parent.mkdir()
    resumed.write_text('{"agent_steps": 350, "return_mean": 9}\n{"agent_steps": 500, "return_mean": 5}\n')
    assert values.read_new(tmp_path) == {500: 5.0}
    assert values.read_new(tmp_path) == {}


def test_a_damaged_line_has_no_value_and_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "Game_1" / "metrics.jsonl"
    path.parent.mkdir()
    path.write_text('{"agent_steps": 100, "return_mean": 1}\n\0\0\n[]\n{"agent_steps": 200, "return_mean": 2}\n')
    lines: list[str] = []
    values = StepValues(100, 0, DamagedFiles(lines.append))
    assert values.read_new(tmp_path) == {100: 1.0, 200: 2.0}
    assert len(lines) == 1 and lines[0].startswith(f"a line of {path} is not JSON")
