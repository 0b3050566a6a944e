"""What a sweep starts, prints and writes."""

import csv
import errno
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from run_files.checkpoint import checkpoint_name
from run_files.run_folder import run_folders
from sweeps import state as sweep_state
from sweeps import table as sweep_table
from sweeps.job import Places
from tests.sweeps.fake_main import write_checkpoint
from tests.sweeps.fake_sweeps import ROOT, command, rows, run_sweep, starts, statuses, when


def test_without_words_it_prints_its_help_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_sweep([]) == 0
    out = capsys.readouterr().out
    assert "--sweep=docs/sweeps/replays.json" in out and "--sweep_dir" in out
    assert not list(tmp_path.iterdir())


def test_help_lists_the_flags_of_the_sweep_and_of_main(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_sweep(["--help"]) == 0
    out = capsys.readouterr().out
    assert "--sweep_dir" in out and "--environment_max_steps" in out


@pytest.mark.parametrize(("sweep", "words"), [({"search": {}}, []), ({}, ["--cluster=auto"])])
def test_a_missing_package_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, sweep: Any, words: list[str]
) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    words = [*command(tmp_path / "sweep", sweep), *words, "--worker_count=1", "--learner_threads=1"]
    assert run_sweep(words) == 2
    errors = capsys.readouterr().err
    assert "run pip install" in errors and errors.count("\n") == 1


@pytest.mark.slow
def test_without_a_search_and_a_cluster_their_packages_are_not_loaded(tmp_path: Path) -> None:
    words = command(tmp_path / "sweep", {})
    code = (
        f"import multi_train, pathlib, sys\nmulti_train.PROGRAM = pathlib.Path('{tmp_path}/nothing.py')\n"
        f"code = multi_train.main({words})\n"
        "assert code == 1, code\nassert not {'optuna', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"bad": {"gamma": 0.5}, "good": {"gamma": 0.7}}, "seeds": [1, 2]})
    assert run_sweep(words) == 1
    out = capsys.readouterr().out
    assert "failed with exit code 3" in out and "    the last words\n" in out
    assert "resume with: python multi_train.py --sweep=" in out and "4 curves in curves.png" in out
    assert statuses(folder) == ["failed", "failed", "done", "done"]
    good = rows(folder)["good_seed2"]
    assert (good["differs"], good["seed"], good["agent_steps"]) == ("gamma 0.7", "2", "1000")
    assert (good["return_mean"], good["return_max"], good["steps_per_second"]) == ("8.0", "7.0", "500.0")
    assert good["folder"] == "good_seed2/Game_1"
    *_, headings, _, bad, means = out.partition("\n\nthe table is in")[0].splitlines()
    names = ["configuration", "differs in", "runs", "mean return", "lowest", "highest", "steps"]
    assert re.split(" {2,}", headings) == names
    assert re.split(" {2,}", bad) == ["bad", "gamma 0.5", "0", "—", "—", "—", "—"]
    assert re.split(" {2,}", means) == ["good", "gamma 0.7", "2", "8.50", "8.00", "9.00", "1,000"]
    state = json.loads((folder / "sweep.json").read_text())["runs"]["bad_seed1"]
    assert (state["exit_code"], state["last_lines"]) == (3, ["done 0.0%  steps 0", "the last words"])

    assert run_sweep(words) == 1
    assert len(starts(folder / "good_seed1")) == 1, "a finished run is not started again"
    assert len(starts(folder / "bad_seed1")) == 2, "a failed run is started again"


@pytest.mark.slow
def test_the_newest_checkpoint_decides_whether_a_run_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run killed before its last checkpoint continues, even if its last report is complete.

    A run killed after its last checkpoint is done, even without its last report.
    """
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"reported": {"gamma": 0.7}, "saved": {"gamma": 0.8}}})
    assert run_sweep(words) == 0
    reported, saved = (folder / name / "Game_1" for name in ("reported_seed1", "saved_seed1"))
    for run, steps in ((reported, 1000), (saved, 600)):
        report = {"agent_steps": steps, "seconds": 2.0, "return_mean": 1.0, "return_max": 7.0}
        (run / "metrics.jsonl").write_text(json.dumps(report) + "\n")
        write_checkpoint(run / "checkpoints" / "checkpoint_0000001000.pt", 1600 - steps)
    assert run_sweep(words) == 0
    assert "reported_seed1  continues at 600 agent steps" in capsys.readouterr().out
    assert [len(starts(run.parent)) for run in (reported, saved)] == [2, 1]


def test_the_run_folder_with_the_most_updates_comes_first_whatever_the_clock(tmp_path: Path) -> None:
    for name, updates, made_at in (("first", 10, 500), ("second", 30, 100), ("third", 30, 200), ("empty", None, 900)):
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        (tmp_path / name / "checkpoints" / f"checkpoint_{made_at}_of_mine.pt").touch()
        if updates is not None:
            (tmp_path / name / "checkpoints" / checkpoint_name(updates)).touch()
        (tmp_path / name / "config.json").touch()
        os.utime(tmp_path / name / "config.json", (made_at, made_at))
    assert [folder.name for folder in run_folders(tmp_path)] == ["third", "second", "first", "empty"]


@pytest.mark.slow
def test_a_full_disk_does_not_end_a_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = command(tmp_path / "sweep", {"runs": {"a": {"gamma": 0.7}, "b": {"gamma": 0.8}}})
    start = Places.start

    def no_room(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def start_or_not(places: Places, folder: Path, flags: dict[str, Any]) -> Any:
        monkeypatch.setattr(sweep_state, "write_json", no_room)
        monkeypatch.setattr(sweep_table, "write_atomically", no_room)
        return no_room() if folder.name == "a_seed1" else start(places, folder, flags)

    monkeypatch.setattr(Places, "start", start_or_not)
    assert run_sweep(words) == 1
    out = capsys.readouterr().out
    assert "a_seed1  could not be started (No space left on device)" in out and "b_seed1  is done" in out
    assert "the table could not be written (No space left on device)" in out


@pytest.mark.slow
def test_another_seed_joins_the_runs_of_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.7}, "b": {"gamma": 0.8}}})
    assert run_sweep([*words, "--seed=1"]) == 0
    capsys.readouterr()
    assert run_sweep([*words, "--seed=2"]) == 0
    out = capsys.readouterr().out
    assert "2 runs, 1 at once" in out and "a_seed1  starts" not in out
    with open(folder / "summary.csv", encoding="utf-8") as file:
        found = [(row["name"], row["differs"], row["seed"], row["status"]) for row in csv.DictReader(file)]
    expected = [("a", "gamma 0.7"), ("b", "gamma 0.8")]
    assert found == [(f"{name}_seed{seed}", differs, seed, "done") for seed in "12" for name, differs in expected]

    assert run_sweep([*words, "--seed=2", "--lr=0.1"]) == 2
    assert "holds the run a_seed2 with another --lr" in capsys.readouterr().err

    longer = [word.replace("1000", "2000") for word in words]
    assert run_sweep([*longer, "--seed=2"]) == 0
    out = capsys.readouterr().out
    assert "is done (1 of 2)" in out and "is done (2 of 2)" in out, "those that go on have not ended"


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"runs": [1]}',
        '{"runs": {"a_seed1": {"status": "done"}}}',
        '{"runs": {"a_seed1": {"flags": [], "status": "done"}}}',
        '{"runs": {"a_se',
    ],
)
def test_a_state_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.7}}})
    (folder / "sweep.json").write_text(content)
    assert run_sweep(words) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and f"--sweep_dir={folder} holds a sweep.json that is damaged" in errors


@pytest.mark.slow
def test_as_many_runs_as_jobs_run_at_once(tmp_path: Path) -> None:
    """The runs a and b wait until c has finished, so the sweep ends only if all three run at once."""
    folder = tmp_path / "sweep"
    words = command(
        folder, {"runs": {"a": {"gamma": 0.6}, "b": {"gamma": 0.6, "lr": 0.1}, "c": {"gamma": 0.7}}}, "--jobs=3"
    )

    def release_waiting_runs() -> None:
        for name in ("a_seed1", "b_seed1"):
            (folder / name / "go").touch()

    when((folder / "c_seed1" / "Game_1" / "checkpoints" / "checkpoint_0000001000.pt").exists, release_waiting_runs)
    assert run_sweep(words) == 0
    assert statuses(folder) == ["done"] * 3


def test_the_table_fits_a_terminal() -> None:
    row = dict.fromkeys([*sweep_table.HEADINGS, "folder"]) | {"status": "waiting", "differs": "lr 0.001, " * 20}
    rows: list[dict[str, Any]] = [row | {"name": f"{'long' * 20}_seed{seed}", "seed": seed} for seed in (1, 2)]
    lines = sweep_table.summary_table(rows) + sweep_table.summary_table(rows[:1])
    assert max(map(len, lines)) == 120 and not any("/" in line for line in lines)


def test_runs_of_another_length_have_a_mean_of_their_own() -> None:
    row = dict.fromkeys([*sweep_table.HEADINGS, "folder"]) | {"status": "done"}
    rows: list[dict[str, Any]] = [
        row | {"name": f"a_seed{seed}", "seed": seed, "differs": differs, "return_mean": mean, "agent_steps": steps}
        for seed, differs, mean, steps in (
            (1, "2M", 10.0, 2_000_000),
            (2, "2M", 20.0, 2_000_000),
            (3, "1M", 1.0, 1_000_000),
        )
    ]
    means = sweep_table.summary_table(rows)[-2:]
    assert [line.split()[:4] for line in means] == [["a", "2M", "2", "15.0"], ["a", "1M", "1", "1.00"]]


def test_a_picture_that_cannot_be_drawn_is_one_line(tmp_path: Path) -> None:
    assert sweep_table.draw_curves([{"return_mean": None}], tmp_path / "x.png") == "there are no curves to draw yet"
    sentence = sweep_table.draw_curves([{"return_mean": 1.0, "folder": tmp_path}], tmp_path / "x.png")
    assert sentence.startswith("the curves could not be drawn: ") and "\n" not in sentence


def test_the_folder_of_a_sweep_has_one_spelling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    path = tmp_path / "sweep.json"
    path.write_text('{"flags": {"gamma": 0.7}}')
    words = [f"--sweep={path}", f"--sweep_dir={tmp_path}/link/../link/sweep"]
    assert run_sweep(words, tmp_path / "nothing.py") == 1
    assert capsys.readouterr().out.startswith(f"1 runs, 1 at once, in {tmp_path}/there/sweep\n")
