"""Run one arm of the benchmark `peers` for a time, follow its progress, and end all of its processes."""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from run_files.metrics import Report, last_report
from tests.benchmarks.peer_environments import PeerError
from tests.benchmarks.peer_programs.progress import PROGRESS
from tests.benchmarks.runs import ROOT, STOP_SECONDS, number
from tests.read_metrics import read_metrics

MARK = "PEER_BENCHMARK_RUN"  # in the environment of each process of an arm
POLL_SECONDS = 1.0
PATIENCE = 300.0  # seconds without a step, after which an arm counts as hanging; also for its start
WARM_UP_SECONDS = 60.0  # after the first step, but at most a tenth of the whole time


class Line(NamedTuple):
    """How far an arm is: seconds since its start, agent steps, mean return of the last 100 games, finished games."""

    seconds: float
    agent_steps: float
    return_mean: float | None
    games: float


@dataclass(frozen=True)
class Reports:
    """The file in which an arm reports its progress."""

    folder: Path
    pattern: str
    games: str  # the name of the number of finished games

    def lines(self) -> list[Line]:
        """All of it."""
        return [self._line(report) for path in self.folder.glob(self.pattern) for report in read_metrics(path)]

    def agent_steps(self) -> float:
        """The newest number of steps, read from the end of the file: reading all of it again takes time of the arm."""
        newest = [last_report(path) for path in self.folder.glob(self.pattern)]
        return max((number(report, "agent_steps") for report in newest if report is not None), default=0.0)

    def _line(self, report: Report) -> Line:
        mean = report["return_mean"]
        return Line(
            number(report, "seconds"),
            number(report, "agent_steps"),
            None if mean is None else float(str(mean)),
            number(report, self.games),
        )


def peer_reports(folder: Path) -> Reports:
    return Reports(folder, PROGRESS, "games")


def own_reports(results: Path) -> Reports:
    """Those of our own run."""
    return Reports(results, "*/metrics.jsonl", "episodes")


@dataclass(frozen=True)
class Command:
    """How to run an arm, and where it reports its progress."""

    words: Sequence[str]
    environment: Mapping[str, str]
    reports: Reports


def run_for(
    command: Command,
    seconds: float,
    log: Path,
    patience: float = PATIENCE,
    clock: Callable[[], float] = time.monotonic,
) -> list[Line]:
    """Run a command for `seconds` of wall-clock time, its start included; then end it like CTRL+C.

    All processes that descend from it have ended when this returns or raises, whatever session they are in.
    """
    mark = uuid.uuid4().hex
    seen: set[psutil.Process] = set()
    process = None
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command.words,
                cwd=ROOT,
                env={**os.environ, **command.environment, MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that CTRL+C at the terminal reaches this program alone
            )
            _follow(process, command, seen, seconds, patience, clock)
        finally:
            if process is not None:
                _interrupt(process, seen)
            session = None if process is None else process.pid
            _kill(session, mark, seen)  # also after CTRL+C in Popen itself, whose process has started
    lines = command.reports.lines()
    if not lines or not lines[-1].agent_steps:
        raise PeerError("it made no step")
    return lines


def _follow(
    process: "subprocess.Popen[bytes]",
    command: Command,
    seen: set[psutil.Process],
    seconds: float,
    patience: float,
    clock: Callable[[], float],
) -> None:
    """Wait until the time is over, and add the descendants of the process to `seen`."""
    began = moved = clock()
    steps = 0.0
    while (now := clock()) - began < seconds:
        if process.poll() is not None:
            if process.returncode:
                raise PeerError(f"it ended with code {process.returncode} after {now - began:.0f} s")
            return  # it reached its own limit
        seen |= descendants(process.pid)
        newest = command.reports.agent_steps()
        if newest > steps:
            steps, moved = newest, now
        if now - moved > patience:
            raise PeerError(f"it made no step for {patience:g} s")
        time.sleep(min(POLL_SECONDS, max(0.0, began + seconds - now)))


def _interrupt(process: "subprocess.Popen[bytes]", seen: set[psutil.Process]) -> None:
    """End the first process like CTRL+C; kill it if it does not end."""
    try:
        if process.poll() is None:
            seen |= descendants(process.pid)
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
    finally:
        process.kill()
        process.wait()


def _kill(session: int | None, mark: str, seen: set[psutil.Process]) -> None:
    """Kill what is left. Ray's processes have groups and sessions of their own, and some change their environment."""
    spared = True
    while left := [one for one in seen | members(session, mark) if _lives(one)]:
        killed = [one for one in left if not (spared and _removes_shared_memory(one))]
        for one in killed:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        # Those that remove the shared memory of the others do so, and end, when all others have ended.
        psutil.wait_procs(killed or left, timeout=5)
        spared = spared and bool(killed)


def _removes_shared_memory(process: psutil.Process) -> bool:
    """Whether it is the process of Python's multiprocessing, or of torch, that outlives the others to clean up."""
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        words = " ".join(process.cmdline())
        return "multiprocessing.resource_tracker" in words or "torch_shm_manager" in words
    return False


def descendants(pid: int) -> set[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return set(psutil.Process(pid).children(recursive=True))
    return set()


def members(session: int | None, mark: str) -> set[psutil.Process]:
    """The processes of an arm that are in its session, or have kept the environment that they were started with."""
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == session or process.environ().get(MARK) == mark:
                found.add(process)
    return found


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def speed(lines: Sequence[Line]) -> float | None:
    """Agent steps a second after the warm-up; None if the run was too short for it."""
    started = next((line.seconds for line in lines if line.agent_steps), None)
    if started is None:
        return None
    begin = started + min(WARM_UP_SECONDS, 0.1 * lines[-1].seconds)
    warm = [line for line in lines if line.seconds >= begin]
    if len(warm) < 2:
        return None
    return (warm[-1].agent_steps - warm[0].agent_steps) / (warm[-1].seconds - warm[0].seconds)
