"""Which runs a sweep starts, stops and counts, with jobs that are no processes."""

import signal
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from machine.stop_signals import StopSignals
from sweeps.job import Job, Places
from sweeps.plan import Sweep, plan_sweep
from sweeps.runner import SweepRunner
from sweeps.state import SweepRun, SweepState
from tests.sweeps.fake_main import write_checkpoint

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
    (job_folder / "Game_1" / "config.json").write_text("{}")
    (job_folder / "Game_1" / "metrics.jsonl").write_text('{"agent_steps": 10, "seconds": 1.0}\n')


class FakeJob(Job):
    """A run that has written its files, and ends at the third look at it."""

    def __init__(self, code: int | None) -> None:
        self.signals: list[signal.Signals] = []
        self._code = code
        self._looks = 0

    @property
    def is_running(self) -> bool:
        self._looks += 1
        return self._looks < 3

    @property
    def exit_code(self) -> int | None:
        return self._code

    def signal(self, number: signal.Signals) -> None:
        self.signals.append(number)


class FakePlaces(Places):
    """Room for one run at a time."""

    def __init__(self, write: Write, code: int | None = 0) -> None:
        super().__init__(1, Path("main.py"), BytesIO())
        self._write, self._code = write, code
        self.started: list[str] = []
        self.made: list[FakeJob] = []

    def start(self, folder: Path, flags: Mapping[str, Any]) -> Job:
        self._write(folder)
        self.started.append(folder.name)
        self.made.append(FakeJob(self._code))
        return self.made[-1]


class HopelessRuns(Sweep):
    def is_hopeless(self, run: SweepRun) -> bool:
        return True


def opened(folder: Path, names: str, kind: type[Sweep] = Sweep) -> tuple[Sweep, SweepState]:
    folder.mkdir(exist_ok=True)
    runs = {name: {"gamma": 0.8 + index / 100} for index, name in enumerate(names)}
    sweep = kind("sweep", plan_sweep({"runs": runs}, {"environment_max_steps": 1000}).runs)
    state = SweepState(folder)
    sweep.open(state)
    return sweep, state


def run(sweep: Sweep, state: SweepState, places: Places) -> list[str]:
    """The lines that it prints."""
    lines: list[str] = []
    SweepRunner(sweep, state, places, StopSignals(), lines.append).run()
    return lines


def statuses(state: SweepState) -> list[str]:
    return [entry["status"] for entry in state.runs.values()]


@pytest.mark.parametrize(("steps", "status"), [(1000, "done"), (500, "pruned")])
def test_a_hopeless_run_is_pruned_unless_it_has_reached_its_end(tmp_path: Path, steps: int, status: str) -> None:
    sweep, state = opened(tmp_path, "a", HopelessRuns)
    places = FakePlaces(lambda job_folder: save(job_folder, steps))
    run(sweep, state, places)
    assert places.made[0].signals == [signal.SIGINT] and statuses(state) == [status]


@pytest.mark.slow
def test_runs_that_fail_do_not_stop_the_others_and_come_last_in_the_next_command(tmp_path: Path) -> None:
    sweep, state = opened(tmp_path, "abc")
    places = FakePlaces(lambda job_folder: save_end(job_folder) if "c_" in job_folder.name else None, code=1)
    run(sweep, state, places)
    assert len(places.started) == 3 and statuses(state) == ["failed"] * 3


@pytest.mark.slow
def test_a_lost_run_goes_on_until_it_was_lost_five_times_without_a_newer_checkpoint(tmp_path: Path) -> None:
    sweep, state = opened(tmp_path, "a")
    steps = iter([100, 100, 200, 200, 200, 200, 200])
    places = FakePlaces(lambda job_folder: save(job_folder, next(steps)), code=None)
    lines = run(sweep, state, places)
    assert len(places.started) == 7 and statuses(state) == ["failed"]
    assert sum("it goes on from its last checkpoint" in line for line in lines) == 6
