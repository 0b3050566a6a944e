"""Which runs a sweep starts, stops and counts, with jobs that are no processes."""

import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from machine.stop_signals import StopSignals
from sweeps.files import LOCK, DamagedFiles, try_lock
from sweeps.plan import SweepRun, plan_sweep
from sweeps.run_source import ListedRuns
from sweeps.runner import SweepRunner
from sweeps.state import SweepState
from sweeps.summary import SweepTable
from tests.sweeps.fake_main import write_checkpoint

pytestmark = pytest.mark.slow
Write = Callable[[Path], None]


def save(job_folder: Path, agent_steps: int) -> None:
    run = job_folder / "Game_1"
    (run / "checkpoints").mkdir(parents=True, exist_ok=True)
    (run / "config.json").write_text("{}")
    write_checkpoint(run / "checkpoints" / "checkpoint_0000000001.pt", agent_steps)


def save_end(job_folder: Path) -> None:
    save(job_folder, 1000)


def report(job_folder: Path) -> None:
    (job_folder / "Game_1").mkdir(exist_ok=True)
    (job_folder / "Game_1" / "metrics.jsonl").write_text('{"agent_steps": 10, "seconds": 1.0}\n')


class FakeJob:
    """A run that writes its files when it starts, and ends at the third look at it."""

    why_lost, where = "", ""

    def __init__(self, folder: Path, write: Write, code: int) -> None:
        self.folder = folder
        self.log = folder / "log.txt"
        self.signals: list[signal.Signals] = []
        self.exit_code: int | None = code
        self._write = write
        self._looks = 0
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, flags: Mapping[str, Any]) -> bool:
        self._write(self.folder)
        return True

    @property
    def is_running(self) -> bool:
        self._looks += 1
        return self._looks < 3

    def signal(self, number: signal.Signals) -> None:
        self.signals.append(number)

    def new_log_lines(self) -> list[str]:
        return []


class FakePlaces:
    """Room for one run at a time."""

    words = "1"

    def __init__(self, write: Write, code: int = 0, at_the_fourth_question: Callable[[], None] = lambda: None) -> None:
        self._write, self._code = write, code
        self._at_the_fourth_question = at_the_fourth_question
        self.jobs: list[FakeJob] = []
        self.asked: list[int] = []

    def has_room(self, running: int) -> bool:
        self.asked.append(running)
        if len(self.asked) == 4:
            self._at_the_fourth_question()
        return running < 1

    def make_job(self, folder: Path) -> FakeJob:
        self.jobs.append(FakeJob(folder, self._write, self._code))
        return self.jobs[-1]

    def close(self) -> None:
        pass

    @property
    def started(self) -> list[str]:
        return [job.folder.name for job in self.jobs]


class HopelessRuns(ListedRuns):
    def is_hopeless(self, run: SweepRun) -> bool:
        return True


def runs_of(folder: Path, names: str, source: type[ListedRuns] = ListedRuns) -> tuple[ListedRuns, SweepState]:
    folder.mkdir(exist_ok=True)
    state = SweepState(folder)
    runs = {name: {"gamma": 0.8 + index / 100} for index, name in enumerate(names)}
    return source(plan_sweep({"runs": runs}, {"environment_max_steps": 1000}), state), state


def run(folder: Path, source: ListedRuns, state: SweepState, places: FakePlaces) -> list[str]:
    """The lines that it prints."""
    lines: list[str] = []
    table = SweepTable(source, folder, state, DamagedFiles(lines.append))

    def write_table() -> None:
        table.write(table.rows())

    SweepRunner(source, folder, state, places, StopSignals(), lines.append, write_table, poll_seconds=0.001).run()
    return lines


def statuses(state: SweepState) -> list[str]:
    return [entry["status"] for entry in state.runs.values()]


def test_a_run_that_has_reached_its_end_is_not_pruned(tmp_path: Path) -> None:
    """Its last report may be below the median while it ends its workers and plays its last evaluation."""
    source, state = runs_of(tmp_path, "a", HopelessRuns)
    places = FakePlaces(save_end)
    run(tmp_path, source, state, places)
    assert places.jobs[0].signals == [] and statuses(state) == ["done"]


def test_a_run_that_is_hopeless_before_its_end_is_pruned(tmp_path: Path) -> None:
    source, state = runs_of(tmp_path, "a", HopelessRuns)
    places = FakePlaces(lambda job_folder: save(job_folder, 500))
    run(tmp_path, source, state, places)
    assert places.jobs[0].signals == [signal.SIGINT] and statuses(state) == ["pruned"]


@pytest.mark.parametrize("key", ["hopeless", "pruned_at"])
@pytest.mark.parametrize(("steps", "status"), [(1000, "done"), (500, "pruned")])
def test_a_hopeless_run_that_has_reached_its_end_all_the_same_is_done(
    tmp_path: Path, key: str, steps: int, status: str
) -> None:
    source, state = runs_of(tmp_path, "a")
    state.runs["a_seed1"] |= {"status": "running", key: 500}  # older versions wrote the steps, as `pruned_at`
    save(tmp_path / "a_seed1", steps)
    places = FakePlaces(save_end)
    run(tmp_path, source, state, places)
    assert statuses(state) == [status] and places.jobs == []


def test_after_three_runs_that_fail_at_once_no_further_one_is_started(tmp_path: Path) -> None:
    source, state = runs_of(tmp_path, "abcde")
    places = FakePlaces(lambda job_folder: None, code=1)
    lines = run(tmp_path, source, state, places)
    assert places.started == ["a_seed1", "b_seed1", "c_seed1"]
    assert statuses(state) == ["failed"] * 3 + ["waiting"] * 2
    assert [line for line in lines if line.startswith("3 runs in a row failed before their first report")] == lines[-1:]

    again = FakePlaces(save_end)
    run(tmp_path, source, state, again)
    assert again.started == ["d_seed1", "e_seed1", "a_seed1", "b_seed1", "c_seed1"]
    assert statuses(state) == ["done"] * 5


def test_runs_that_fail_after_a_report_do_not_stop_the_others(tmp_path: Path) -> None:
    source, state = runs_of(tmp_path, "abcde")
    places = FakePlaces(report, code=1)
    run(tmp_path, source, state, places)
    assert len(places.started) == 5


def test_runs_of_an_earlier_command_count_as_long_as_they_run(tmp_path: Path) -> None:
    """They are in the folder, but not in this sweep; the sweep that started them was killed."""
    source, state = runs_of(tmp_path, "b")
    state.runs = {"a_seed1": {"flags": {}, "status": "running"}, **state.runs}
    (tmp_path / "a_seed1").mkdir()
    lock = try_lock(tmp_path / "a_seed1" / LOCK)
    assert lock is not None
    places = FakePlaces(save_end, at_the_fourth_question=lock.close)
    lines = run(tmp_path, source, state, places)
    assert places.asked[:5] == [1, 1, 1, 1, 0] and places.started == ["b_seed1"]
    assert lines[0] == "still running from an earlier command, and counted among the runs at once: a_seed1"


def test_the_table_shows_how_a_run_of_a_killed_sweep_has_ended(tmp_path: Path) -> None:
    source, state = runs_of(tmp_path, "abc")
    for entry in state.runs.values():
        entry["status"] = "running"
    save(tmp_path / "a_seed1", 1000)
    save(tmp_path / "b_seed1", 500)
    (tmp_path / "c_seed1").mkdir()
    lock = try_lock(tmp_path / "c_seed1" / LOCK)
    assert lock is not None
    with lock:
        rows = SweepTable(source, tmp_path, state, DamagedFiles(print)).rows()
    assert [row["status"] for row in rows] == ["done", "stopped", "running"]


def test_a_damaged_file_of_metrics_counts_as_one_without_reports(tmp_path: Path) -> None:
    source, state = runs_of(tmp_path, "a")
    save(tmp_path / "a_seed1", 500)
    metrics = tmp_path / "a_seed1" / "Game_1" / "metrics.jsonl"
    metrics.write_text(json.dumps({"agent_steps": 10, "seconds": 1.0, "return_mean": 3.0}) + "\n\0\0\0\n")
    lines: list[str] = []
    damaged = DamagedFiles(lines.append)
    for _ in range(2):
        (row,) = SweepTable(source, tmp_path, state, damaged).rows()
        assert (row["name"], row["return_mean"], row["folder"]) == ("a_seed1", None, None)
    assert len(lines) == 1 and lines[0].startswith(f"{metrics}, its last line is not JSON")
