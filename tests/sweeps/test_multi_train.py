"""The flags, runs and files of a sweep."""

import csv
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from run_files.checkpoint import checkpoint_name
from run_files.job_runs import run_folders
from sweeps import state as sweep_state
from sweeps import summary as sweep_summary
from sweeps.job import Job
from tests.sweeps.fake_main import write_checkpoint
from tests.sweeps.fake_sweeps import command, rows, run_sweep, starts, when

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("definition", "words", "sentence"),
    [
        ([], [], "must be an object of name"),
        ({"run": []}, [], 'unknown key "run"'),
        ({"name": "../up"}, [], '"name" must be a word'),
        ({"flags": [1]}, [], '"flags" must be an object'),
        ({"runs": []}, [], '"runs" must be a list'),
        ({"runs": {"a": 1}}, [], '"runs" must be a list'),
        ({"grid": {"lr": 1e-3}}, [], '"grid" must be an object of lists'),
        ({"seeds": [1.5]}, [], '"seeds" must be a list of whole'),
        ({"flags": {"results_dir": "x"}}, [], "results_dir must not be among"),
        ({"grid": {"seed": [1, 2]}}, [], '"seeds" lists them'),
        ({}, ["--op_mode=train"], "--op_mode has no meaning here"),
        ({}, ["--load_model_url=x"], "--load_model_url has no meaning here"),
        ({}, ["--seed=unset"], "--seed=unset has no meaning here"),
        ({"flags": {"load_weights_only": True}}, [], "load_weights_only must not be among"),
        ({"runs": [{"lr": 1e-3}, {"lr": -1.0}]}, [], "run lr=-1.0_seed1: --lr must be a number above 0"),
        ({"flags": {"lrr": 1}}, [], "--lrr is not a known flag"),
        ({"flags": {"env": "PingNoFrameskip-v4"}}, [], "--env"),
        ({"grid": {"lr": [1e-3, 1e-4]}}, ["--lr=1"], "are the same"),
        ({"seeds": [1, 1]}, [], "are the same"),
        ({"runs": [{"lr": 1e-3}, {"lr": 1e-3}]}, [], "have the same name"),
        ({"runs": {"a b": {}, "a-b": {"lr": 1e-3}}}, [], "which is no name of a folder"),
        ({"grid": {"lr": [1e-3, 1e-4, 1e-3]}}, [], '"grid" has 0.001 twice for lr; give it once.'),
    ],
)
def test_a_wrong_sweep_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], definition: Any, words: list[str], sentence: str
) -> None:
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(definition))
    folder = tmp_path / "sweep"
    assert run_sweep([f"--sweep={path}", f"--sweep_dir={folder}", *words]) == 2
    out, errors = capsys.readouterr()
    assert out == "" and errors.count("\n") == 1 and errors.startswith("multi_train.py: ")
    assert sentence in errors
    assert not folder.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--jobs=0"], "--jobs must be a whole number of at least 1, not 0"),
        (["--jobs=many"], '--jobs must be a whole number of at least 1, not "many"'),
        (["--jobs=" + "9" * 5000], '--jobs must be a whole number of at least 1, not "99'),
        (["--jobs="], '--jobs must be a whole number of at least 1, not ""'),
        (["--jobs"], "Missing value for flag --jobs"),
        (["--sweep="], '--sweep must be a path that does not begin with a dash, not ""'),
        (["--jobs=1", "--jobs", "2"], "--jobs is given twice"),
        (["--sweep=nowhere.json"], "--sweep=nowhere.json cannot be read"),
        (["--sweep=README.md"], "must be a JSON file"),
        (["--batch_sise=3"], "did you mean --batch_size"),
        (["--sweepdir=here"], "--sweepdir is not a known flag; did you mean --sweep_dir?"),
        (["--job=2"], "--job is not a known flag; did you mean --job_cpus or --job_gpus or --jobs?"),
    ],
)
def test_wrong_flags_are_refused(capsys: pytest.CaptureFixture[str], words: list[str], sentence: str) -> None:
    assert run_sweep(words) == 2
    errors = capsys.readouterr().err
    assert sentence in errors and errors.count("\n") == 1


def test_help_lists_the_flags_of_the_sweep_and_of_main(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_sweep(["--help"]) == 0
    out = capsys.readouterr().out
    assert "--sweep_dir" in out and "--environment_max_steps" in out


def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"bad": {"gamma": 0.5}, "good": {"gamma": 0.7}}, "seeds": [1, 2]})
    assert run_sweep(words) == 1
    out = capsys.readouterr().out
    assert "failed with exit code 3" in out and "    the last words\n" in out
    assert "resume with: python multi_train.py --sweep=" in out and "4 curves in curves.png" in out
    table = rows(folder)
    assert [row["status"] for row in table.values()] == ["failed", "failed", "done", "done"]
    good = table["good_seed2"]
    assert (good["differs"], good["seed"], good["agent_steps"]) == ("gamma=0.7", "2", "1000")
    assert (good["return_mean"], good["return_max"], good["steps_per_second"]) == ("-2.0", "7.0", "500.0")
    assert Path(good["folder"]) == folder / "good_seed2" / "Game_1"
    state = json.loads((folder / "sweep.json").read_text())["runs"]["bad_seed1"]
    assert (state["exit_code"], state["last_lines"]) == (3, ["done 0.0%  steps 0", "the last words"])

    assert run_sweep(words) == 1
    assert len(starts(folder / "good_seed1")) == 1, "a finished run is not started again"
    assert len(starts(folder / "bad_seed1")) == 2, "a failed run is started again"


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
        write_checkpoint(run / "checkpoints" / "checkpoint_0000000001.pt", 1600 - steps)
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


def test_a_full_disk_does_not_end_a_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.7}, "b": {"gamma": 0.8}}})
    start = Job.start

    def no_room(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def start_or_not(job: Job, flags: dict[str, Any]) -> bool:
        monkeypatch.setattr(sweep_state, "write_json", no_room)
        monkeypatch.setattr(sweep_summary, "write_atomically", no_room)
        if job.folder.name == "a_seed1":
            no_room()
        return start(job, flags)

    monkeypatch.setattr(Job, "start", start_or_not)
    assert run_sweep(words) == 1
    out = capsys.readouterr().out
    assert "a_seed1  could not be started (No space left on device)" in out and "b_seed1  is done" in out
    assert "the table could not be written (No space left on device)" in out


def test_other_flags_need_another_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.7}}})
    assert run_sweep(words) == 0
    assert run_sweep([*words, "--lr=0.1"]) == 2
    assert "holds the run a_seed1 with another --lr" in capsys.readouterr().err
    other = command(tmp_path / "other", {"runs": {"b": {"gamma": 0.7}}})
    assert run_sweep([other[0], *words[1:]]) == 2
    assert "holds other runs (a_seed1, ...) and none of this sweep" in capsys.readouterr().err


def test_another_seed_joins_the_runs_of_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.7}, "b": {"gamma": 0.8}}})
    assert run_sweep([*words, "--seed=1"]) == 0
    capsys.readouterr()
    assert run_sweep([*words, "--seed=2"]) == 0
    out = capsys.readouterr().out
    assert "2 runs, 1 at once" in out and "a_seed1  starts" not in out
    with open(folder / "summary.csv", encoding="utf-8") as file:
        rows = [(row["name"], row["differs"], row["seed"], row["status"]) for row in csv.DictReader(file)]
    expected = [("a", "gamma=0.7"), ("b", "gamma=0.8")]
    assert rows == [(f"{name}_seed{seed}", differs, seed, "done") for seed in "12" for name, differs in expected]


def test_another_seed_with_other_flags_needs_another_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = command(tmp_path / "sweep", {"runs": {"a": {"gamma": 0.7}}})
    assert run_sweep([*words, "--seed=1"]) == 0
    assert run_sweep([*words, "--seed=2", "--lr=0.1"]) == 2
    assert "holds other runs (a_seed1, ...) and none of this sweep" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        '{"runs": [1]}',
        '{"runs": {"a_seed1": 1}}',
        '{"runs": {"a_seed1": {"status": "done"}}}',
        '{"runs": {"a_seed1": {"flags": {}}}}',
        '{"runs": {"a_seed1": {"flags": [], "status": "done"}}}',
        "[" * 100_000,
        "9" * 5000,
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
    assert (
        errors.count("\n") == 1
        and f"--sweep_dir={folder} holds a sweep.json that is damaged or not of a sweep;" in errors
    )


def test_as_many_runs_as_jobs_run_at_once(tmp_path: Path) -> None:
    """The runs a and b wait until c has finished, so the sweep ends only if all three run at once."""
    folder = tmp_path / "sweep"
    words = command(
        folder, {"runs": {"a": {"gamma": 0.6}, "b": {"gamma": 0.6, "lr": 0.1}, "c": {"gamma": 0.7}}}, "--jobs=3"
    )

    def release_waiting_runs() -> None:
        for name in ("a_seed1", "b_seed1"):
            (folder / name / "go").touch()

    when((folder / "c_seed1" / "Game_1" / "metrics.jsonl").exists, release_waiting_runs)
    assert run_sweep(words) == 0
    assert {row["status"] for row in rows(folder).values()} == {"done"}


def test_a_picture_that_cannot_be_drawn_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_summary, "CHECKOUT", tmp_path)
    assert sweep_summary.draw_curves([{"return_mean": None}], tmp_path / "x.png") == "there are no curves to draw yet"
    sentence = sweep_summary.draw_curves([{"return_mean": 1.0, "folder": tmp_path}], tmp_path / "x.png")
    assert sentence.startswith("the curves could not be drawn: ") and "\n" not in sentence
