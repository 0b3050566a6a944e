"""Which run folder of a sweep's job has its result."""

import os
from pathlib import Path

import pytest

from run_files.checkpoint import checkpoint_name
from run_files.run_folder import is_job, run_of_job

REPORT = '{"agent_steps": 1000}\n'


def write_start(folder: Path, *, age: int, updates: int | None = None, metrics: str | None = REPORT) -> Path:
    """The run folder of a start that is so many seconds old, with a checkpoint after so many updates."""
    (folder / "checkpoints").mkdir(parents=True)
    if updates is not None:
        (folder / "checkpoints" / checkpoint_name(updates)).touch()
    if metrics is not None:
        (folder / "metrics.jsonl").write_text(metrics)
    (folder / "config.json").touch()
    os.utime(folder / "config.json", (10**9 - age, 10**9 - age))
    return folder


def test_the_run_with_the_most_updates_is_that_of_the_job(tmp_path: Path) -> None:
    write_start(tmp_path / "killed", age=30)
    last = write_start(tmp_path / "last", age=20, updates=7)
    write_start(tmp_path / "earlier", age=10, updates=3)
    assert run_of_job(tmp_path) == last


def test_of_starts_without_a_checkpoint_the_newest_counts(tmp_path: Path) -> None:
    write_start(tmp_path / "old", age=30)
    new = write_start(tmp_path / "new", age=20)
    assert run_of_job(tmp_path) == new


@pytest.mark.parametrize("metrics", [None, "", '{"agent_st', "damaged\n"])
def test_a_start_counts_only_once_it_has_a_report(tmp_path: Path, metrics: str | None) -> None:
    assert run_of_job(tmp_path) is None
    starting = write_start(tmp_path / "starting", age=10, updates=7, metrics=metrics)
    assert run_of_job(tmp_path) == starting, "there is no other"
    before = write_start(tmp_path / "before", age=20, updates=7)
    assert run_of_job(tmp_path) == before


def test_the_folders_in_that_of_a_sweep_are_its_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job").mkdir()
    assert not is_job(tmp_path / "job")
    (tmp_path / "sweep.json").touch()
    assert is_job(tmp_path / "job") and not is_job(tmp_path)
    monkeypatch.chdir(tmp_path / "job")
    assert is_job(Path())
