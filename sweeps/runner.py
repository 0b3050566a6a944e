"""Runs the jobs of a sweep, a given number at once, each in a process of its own."""

import math
import signal
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from machine.stop_signals import SAME_SIGNAL_SECONDS, StopSignals
from sweeps.files import agent_steps, is_complete, is_locked, last_lines, resumable
from sweeps.job import Job
from sweeps.plan import Sweep, SweepRun
from sweeps.state import SweepState

POLL_SECONDS = 0.2
SECONDS_BETWEEN_SIGNALS = 2 * SAME_SIGNAL_SECONDS  # main.py counts two signals within half of this as one


class SweepRunner:
    """Starts the waiting jobs, watches the running ones, and records how each one ends."""

    def __init__(
        self,
        sweep: Sweep,
        folder: Path,
        state: SweepState,
        jobs: int,
        program: Path,
        stop: StopSignals,
        print_line: Callable[[str], None],
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._sweep = sweep
        self._folder = folder
        self._state = state
        self._jobs = jobs
        self._program = program
        self._stop = stop
        self._print_line = print_line
        self._poll_seconds = poll_seconds
        self._active: dict[str, tuple[SweepRun, Job]] = {}
        self._stop_pacing = StopPacing()
        self._width = max(len(run.name) for run in sweep.runs)

    def run(self) -> None:
        """Run until all jobs have ended, or until the running ones have stopped after a stop signal."""
        waiting = self._waiting()
        while (waiting and not self._stop.requested) or self._active:
            self._forward_signals()
            while waiting and len(self._active) < self._jobs and not self._stop.requested:
                self._try_start(waiting.popleft())
            for run, job in list(self._active.values()):
                is_running = job.is_running  # before the log is read, so that its last lines are not missed
                self._print_progress(run, job)
                if not is_running:
                    del self._active[run.name]
                    if not self._record_end(run, job):
                        waiting.appendleft(run)
            time.sleep(self._poll_seconds)

    def _waiting(self) -> deque[SweepRun]:
        """The runs that are not done. Those that are still running come first: only their sweep was killed."""
        waiting = []
        for run in self._sweep.runs:
            if self._is_done(run):
                self._state.set(run.name, "done")
            else:
                waiting.append(run)
        if len(waiting) < len(self._sweep.runs):
            done = len(self._sweep.runs) - len(waiting)
            self._print_line(f"{done} of {len(self._sweep.runs)} runs are done already")
        return deque(sorted(waiting, key=lambda run: not self._is_running(run)))

    def _job_folder(self, run: SweepRun) -> Path:
        return self._folder / run.name

    def _is_done(self, run: SweepRun) -> bool:
        is_running = self._is_running(run)
        return not is_running and is_complete(self._job_folder(run), run.config)

    def _is_running(self, run: SweepRun) -> bool:
        return is_locked(self._job_folder(run) / "lock")

    def _try_start(self, run: SweepRun) -> None:
        try:
            self._start(run)
        except OSError as error:
            self._active.pop(run.name, None)
            self._state.set(run.name, "failed", None, [str(error)])
            self._print(run, f"could not be started ({error.strerror})")

    def _start(self, run: SweepRun) -> None:
        job = Job(self._job_folder(run), self._program)
        parent = resumable(job.folder)
        console = "off" if run.flags.get("console") == "off" else "plain"
        self._active[run.name] = run, job
        if not job.start({**run.flags, "console": console}):
            self._print(run, "is running already; waiting for it")
        elif parent is None:
            self._print(run, f"starts, log in {job.log}")
        else:
            self._print(run, f"continues at {agent_steps(job.folder):,} agent steps, log in {job.log}")
        self._state.set(run.name, "running")

    def _forward_signals(self) -> None:
        if self._stop_pacing.is_due(self._stop.requested + self._stop.stop_now, time.monotonic()):
            hint = "" if self._stop.stop_now else "; CTRL+C again makes them stop sooner"
            self._print_line(f"stopping {len(self._active)} run(s){hint}")
            self._signal_all(signal.SIGTERM)
        if self._stop.save_now:
            self._stop.save_now = False
            self._signal_all(signal.SIGUSR1)

    def _signal_all(self, number: signal.Signals) -> None:
        for _, job in self._active.values():
            job.signal(number)

    def _print_progress(self, run: SweepRun, job: Job) -> None:
        for line in job.new_log_lines():
            if line.startswith("done "):
                self._print(run, line)

    def _record_end(self, run: SweepRun, job: Job) -> bool:
        """Record how a job has ended. False if it must be started again."""
        code, lines = job.exit_code, last_lines(job.log)
        if code in (0, None) and self._is_done(run):
            self._state.set(run.name, "done", code)
            done = sum(self._state.runs[one.name]["status"] == "done" for one in self._sweep.runs)
            self._print(run, f"is done ({done} of {len(self._sweep.runs)})")
        elif code is None and not self._stop.requested:
            self._print(run, "has stopped")  # its process was not started here, so the reason is not known
            return False
        elif code in (0, None) or (self._stop.requested and code in (-signal.SIGTERM, -signal.SIGKILL)):
            self._state.set(run.name, "stopped", code, lines)
            self._print(run, f"has stopped at {agent_steps(job.folder):,} agent steps")
        else:
            self._state.set(run.name, "failed", code, lines)
            ending = "".join(f"\n    {line}" for line in lines)
            self._print(run, f"failed with exit code {code}; the last lines of {job.log}:{ending}")
        return True

    def _print(self, run: SweepRun, text: str) -> None:
        self._print_line(f"{run.name:<{self._width}}  {text}")


class StopPacing:
    """Forwards stop requests with a pause between them, so that main.py counts each one."""

    def __init__(self) -> None:
        self._forwarded, self._forwarded_at = 0, -math.inf

    def is_due(self, requests: int, now: float) -> bool:
        """Whether another signal must be sent at the time `now`, after so many requests in all."""
        if requests <= self._forwarded or now <= self._forwarded_at + SECONDS_BETWEEN_SIGNALS:
            return False
        self._forwarded, self._forwarded_at = self._forwarded + 1, now
        return True
