"""Searches with Optuna: trials, runs that are given up, interruptions."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from sweeps.search import STUDY_FILE
from tests.options.words import parse
from tests.sweeps.fake_sweeps import (
    command,
    interrupt,
    rows,
    run_sweep,
    start_sweep,
    starts,
    statuses,
    wait_until,
    waits,
    when,
)

pytest.importorskip("optuna")
pytestmark = pytest.mark.slow
RANGES = {
    "lr": {"low": 3e-3, "high": 3e-2, "log": True},
    "batch_size": {"choices": [8, 16]},
    "r_f_steps": {"low": 10, "high": 40, "step": 10},
}
PRUNED_AT_HALF = {  # of 6 trials, those with the lower value
    "search": {"lr": {"choices": [0.01, 0.001]}},
    "sampler": {"type": "random", "seed": 2},
    "pruner": {"type": "median", "startup_trials": 1, "warmup_steps": 300, "interval_steps": 100},
}


def definition(**others: Any) -> dict[str, Any]:
    sampler = {"type": "tpe", "startup_trials": 2}
    return {"search": RANGES, "trials": 4, "sampler": sampler, "pruner": {"type": "none"}, **others}


def flags_of(folder: Path) -> list[tuple[Any, ...]]:
    runs = json.loads((folder / "sweep.json").read_text())["runs"]
    return [tuple(entry["flags"][name] for name in RANGES) for entry in runs.values()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search that was never interrupted."""
    folder = tmp_path_factory.mktemp("search") / "whole"
    assert run_sweep(command(folder, definition(flags={"gamma": 0.9}))) == 0
    return folder


def test_a_search_finds_the_best_flags_and_names_the_command(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_sweep(command(whole, definition(flags={"gamma": 0.9}))) == 0
    out = capsys.readouterr().out
    assert "4 of 4 runs are done already" in out
    lines = out.splitlines()
    table = list(rows(whole).values())
    assert len(table) == 4 and {row["status"] for row in table} == {"done"}
    returns = [float(row["return_mean"]) for row in table]
    assert returns == sorted(returns, reverse=True)
    best = max(flags_of(whole))
    assert returns[0] == pytest.approx(1000 * best[0] - 1)
    assert all(
        3e-3 <= lr <= 3e-2 and size in (8, 16) and steps in (10, 20, 30, 40) for lr, size, steps in flags_of(whole)
    )
    assert len(set(flags_of(whole))) == 4
    assert f"lr {best[0]}, batch_size {best[1]}, r_f_steps {best[2]}" in lines[-2]
    flags = parse(shlex.split(lines[-1].partition("python main.py ")[2])).flags()
    assert (flags["lr"], flags["batch_size"], flags["r_f_steps"], flags["environment_max_steps"]) == (*best, 1000)


def test_an_interrupted_search_goes_on_with_the_same_trials(tmp_path: Path, whole: Path) -> None:
    folder = tmp_path / "parts"
    words = command(folder, definition(flags={"gamma": 0.9}))
    when((folder / "trial_001" / "log.txt").exists, interrupt)
    run_sweep(words)
    assert 2 <= len(flags_of(folder)) < 4
    assert run_sweep(words) == 0
    assert flags_of(folder) == flags_of(whole)
    assert statuses(folder) == ["done"] * 4


def test_a_search_that_was_killed_goes_on_with_the_same_trials(tmp_path: Path, whole: Path) -> None:
    """Also if the kill has left half a line in Optuna's file."""
    folder = tmp_path / "killed"
    words = command(folder, definition(flags={"gamma": 0.9}))
    sweep = start_sweep(words)
    wait_until((folder / "trial_002" / "log.txt").exists)
    sweep.kill()
    sweep.wait()
    with (folder / STUDY_FILE).open("a") as file:
        file.write('{"op_co')
    wait_until(lambda: run_sweep(words) == 0)  # until then, its runs save and end
    assert flags_of(folder) == flags_of(whole)
    assert statuses(folder) == ["done"] * 4


def test_a_trial_that_was_stopped_is_continued(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, definition(flags={"gamma": 0.6}, trials=1))
    trial = folder / "trial_000"
    when(lambda: waits(trial), interrupt)
    assert run_sweep(words) == 0
    assert statuses(folder) == ["stopped"]
    assert run_sweep(words) == 0
    assert starts(trial) == [["train"], ["train_w_load", str(trial / "Game_1")]]
    assert statuses(folder) == ["done"]


def test_more_trials_are_added_to_a_finished_search(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    assert run_sweep(command(folder, definition(trials=2))) == 0
    before = flags_of(folder)
    assert run_sweep(command(folder, definition(trials=3))) == 0
    assert flags_of(folder)[:2] == before and len(flags_of(folder)) == 3
    assert len(starts(folder / "trial_000")) == 1


def test_hopeless_trials_are_pruned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {**PRUNED_AT_HALF, "trials": 6})
    assert run_sweep(words) == 0
    out = capsys.readouterr().out
    table = rows(folder)
    assert {(row["differs"], row["status"]) for row in table.values()} == {("lr 0.01", "done"), ("lr 0.001", "pruned")}
    assert statuses(folder) == sorted(statuses(folder))
    pruned = next(name for name, row in table.items() if row["status"] == "pruned")
    assert f"{pruned}  is worse than the others were" in out
    assert f"{pruned}  is pruned at 500 agent steps" in out
    assert (folder / pruned / "signals.txt").read_text() == "SIGINT"
    assert "best of the trials that reached their end" in out and "lr 0.01" in out.splitlines()[-2]

    assert run_sweep(words) == 0
    assert len(starts(folder / pruned)) == 1
    assert "6 of 6 runs are done already" in capsys.readouterr().out


def test_a_trial_that_fails_is_started_again_with_its_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, definition(search={"gamma": {"choices": [0.5, 0.9]}}, flags={"lr": 0.01}, trials=4))
    assert run_sweep(words) == 1
    ends = {row["differs"]: row["status"] for row in rows(folder).values()}
    assert ends == {"gamma 0.5": "failed", "gamma 0.9": "done"}
    failed = next(name for name, row in rows(folder).items() if row["status"] == "failed")
    assert run_sweep(words) == 1
    assert len(starts(folder / failed)) == 2 and len(rows(folder)) == 4
    assert "gamma 0.9" in capsys.readouterr().out.splitlines()[-3]


def test_values_that_are_refused_together_count_as_a_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--rho_const must be at least --c_const."""
    folder = tmp_path / "sweep"
    ranges = {"rho_const": {"choices": [1.0, 2.0]}, "c_const": {"choices": [0.5, 1.5]}}
    words = command(folder, definition(search=ranges, flags={"lr": 0.01}, trials=8, sampler={"type": "random"}))
    for _ in range(2):
        assert run_sweep(words) == 0
        out = capsys.readouterr().out
        assert "was not started: the sweep's run trial_" in out and "--rho_const" in out
        refused = out.count("was not started")
        assert len(rows(folder)) == 8 - refused > 0
        assert "rho_const 1.0, c_const 1.5" not in {row["differs"] for row in rows(folder).values()}


def test_another_search_needs_another_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    assert run_sweep(command(folder, definition(trials=1))) == 0
    capsys.readouterr()
    others: dict[str, dict[str, Any]] = {
        "search": {"search": {**RANGES, "gamma": {"low": 0.9, "high": 0.99}}},
        "sampler": {"sampler": {"type": "random"}},
    }
    for changed, other in others.items():
        assert run_sweep(command(folder, definition(trials=1, **other))) == 2
        assert f"holds a sweep with another {changed};" in capsys.readouterr().err
    usual = command(folder, definition(trials=1))
    for words, was in (
        ([*usual, "--stop_at_return=100"], "without --stop_at_return"),
        ([*usual[:2], "--environment_max_steps=7"], "with --environment_max_steps=1000"),
    ):
        assert run_sweep(words) == 2
        assert f"holds a search {was}; that, or another --sweep_dir" in capsys.readouterr().err
    assert run_sweep(command(folder, {"runs": {"a": {}}})) == 2
    assert f"--sweep_dir={folder} holds a search; another --sweep_dir would be right." in capsys.readouterr().err
    assert run_sweep([*command(folder, definition(trials=1)), "--seed=4"]) == 2
    assert "holds a sweep with another --seed; another --sweep_dir, or what was" in capsys.readouterr().err


def test_a_search_does_not_take_the_folder_of_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    assert run_sweep(command(folder, {"runs": {"a": {"lr": 0.01}}})) == 0
    assert run_sweep(command(folder, definition())) == 2
    assert f"--sweep_dir={folder} holds a sweep that is no search; another --sweep_dir" in capsys.readouterr().err


def test_a_damaged_study_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, definition(trials=1))
    (folder / STUDY_FILE).write_text("no JSON\n{}\n")
    assert run_sweep(words) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and f"{folder / STUDY_FILE} is damaged" in errors
