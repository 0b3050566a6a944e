"""Runs a sweep: so many runs at once, each in a process of its own, whatever happens to the others."""

import json
import math
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from machine.stop_signals import SAME_SIGNAL_SECONDS, StopSignals
from options.rules import UsageError
from run_files.run_folder import write_json
from sweeps.files import agent_steps, last_lines, resumable, try_lock
from sweeps.job import Job
from sweeps.plan import Sweep, SweepRun

STATE_FILE = "sweep.json"
POLL_SECONDS = 0.2
SECONDS_BETWEEN_WISHES = 2 * SAME_SIGNAL_SECONDS  # or a run would take two for one
# What may be another with the second command than with the first: it changes nothing that was learned so far.
CHANGEABLE = {"environment_max_steps", "console", "console_period"}


class SweepState:
    """`sweep.json`: of each run its flags, its status, and how it ended. Files of the runs say how far they are."""

    def __init__(self, folder: Path, sweep: Sweep) -> None:
        self._path = folder / STATE_FILE
        self.runs: dict[str, dict[str, Any]] = {}
        if self._path.exists():
            self._read(folder)
        if self.runs and not self.runs.keys() & {run.name for run in sweep.runs}:
            raise UsageError(
                f"--sweep_dir={folder} holds other runs ({next(iter(self.runs))}, ...) and none of this sweep; another "
                "--sweep_dir, or another name for this sweep, would be right."
            )
        for run in sweep.runs:
            flags = json.loads(json.dumps(run.flags))
            entry = self.runs.setdefault(run.name, {"flags": flags, "status": "waiting"})
            before = entry["flags"]
            for name in {**before, **flags}:
                if name not in CHANGEABLE and before.get(name) != flags.get(name):
                    raise UsageError(
                        f"--sweep_dir={folder} holds the run {run.name} with another --{name}; another --sweep_dir, or "
                        "the flags that it was begun with, would be right."
                    )
            entry["flags"] = flags

    def _read(self, folder: Path) -> None:
        try:
            self.runs = json.loads(self._path.read_text(encoding="utf-8"))["runs"]
        except (OSError, ValueError, KeyError, TypeError):
            raise UsageError(
                f"--sweep_dir={folder} holds a {STATE_FILE} that is not ours; another folder would be right."
            ) from None

    def set(self, name: str, status: str, exit_code: int | None = None, lines: Sequence[str] = ()) -> None:
        self.runs[name] |= {"status": status, "exit_code": exit_code, "last_lines": list(lines)}
        with suppress(OSError):  # a full disk; the files of the runs say how far they are
            self.write()

    def write(self) -> None:
        write_json(self._path, {"runs": self.runs})


class SweepRunner:
    """Starts what waits, watches what works, and writes down how it ends."""

    def __init__(
        self,
        sweep: Sweep,
        folder: Path,
        state: SweepState,
        jobs: int,
        program: Path,
        stop: StopSignals,
        tell: Callable[[str], None],
    ) -> None:
        self._sweep = sweep
        self._folder = folder
        self._state = state
        self._jobs = jobs
        self._program = program
        self._stop = stop
        self._tell = tell
        self._active: dict[str, tuple[SweepRun, Job]] = {}
        self._signals_sent, self._signalled_at = 0, -math.inf
        self._width = max(len(run.name) for run in sweep.runs)

    def run(self) -> None:
        """Until all runs have ended, or those at work have stopped because a signal came."""
        waiting = self._waiting()
        while (waiting and not self._stop.requested) or self._active:
            self._pass_signals_on()
            while waiting and len(self._active) < self._jobs and not self._stop.requested:
                run = waiting.popleft()
                try:
                    self._start(run)
                except OSError as error:
                    self._active.pop(run.name, None)
                    self._state.set(run.name, "failed", None, [str(error)])
                    self._say(run, f"could not be started ({error.strerror})")
            for run, job in list(self._active.values()):
                ended = job.ended  # asked first: what it said last is then in the log
                self._forward(run, job)
                if ended:
                    del self._active[run.name]
                    if not self._settle(run, job):
                        waiting.appendleft(run)
            time.sleep(POLL_SECONDS)

    def _waiting(self) -> deque[SweepRun]:
        """What is not done; first of all those that are at work although their sweep was killed."""
        waiting = []
        for run in self._sweep.runs:
            if self._is_done(run):
                self._state.set(run.name, "done")
            else:
                waiting.append(run)
        if len(waiting) < len(self._sweep.runs):
            self._tell(f"{len(self._sweep.runs) - len(waiting)} of {len(self._sweep.runs)} runs are done already")
        return deque(sorted(waiting, key=lambda run: not self._is_at_work(run)))

    def _place(self, run: SweepRun) -> Path:
        return self._folder / run.name

    def _is_done(self, run: SweepRun) -> bool:
        at_work = self._is_at_work(run)
        return not at_work and agent_steps(self._place(run)) >= run.config.run.environment_max_steps

    def _is_at_work(self, run: SweepRun) -> bool:
        path = self._place(run) / "lock"
        lock = try_lock(path) if path.exists() else None
        if lock is not None:
            lock.close()
        return path.exists() and lock is None

    def _start(self, run: SweepRun) -> None:
        place = self._place(run)
        job = Job(place, self._program)
        parent = resumable(place)
        console = "off" if run.flags.get("console") == "off" else "plain"
        self._active[run.name] = run, job
        if not job.start({**run.flags, "console": console}):
            self._say(run, "is at work already and is waited for")
        elif parent is None:
            self._say(run, f"starts, log in {job.log}")
        else:
            self._say(run, f"goes on at {agent_steps(place):,} agent steps, log in {job.log}")
        self._state.set(run.name, "running")

    def _pass_signals_on(self) -> None:
        wishes, now = self._stop.requested + self._stop.stop_now, time.monotonic()
        if wishes > self._signals_sent and now > self._signalled_at + SECONDS_BETWEEN_WISHES:
            self._signals_sent, self._signalled_at = self._signals_sent + 1, now
            again = "; CTRL+C again hurries them" if self._signals_sent == 1 else ""
            self._tell(f"stopping {len(self._active)} run(s) in good order{again}")
            self._signal_all(signal.SIGTERM)
        if self._stop.save_now:
            self._stop.save_now = False
            self._signal_all(signal.SIGUSR1)

    def _signal_all(self, number: signal.Signals) -> None:
        for _, job in self._active.values():
            job.signal(number)

    def _forward(self, run: SweepRun, job: Job) -> None:
        for line in job.news():
            if line.startswith("done "):
                self._say(run, line)

    def _settle(self, run: SweepRun, job: Job) -> bool:
        """Write down how a run has ended; False where it is to be started again."""
        code, lines = job.exit_code, last_lines(job.log)
        if code in (0, None) and self._is_done(run):
            self._state.set(run.name, "done", code)
            done = sum(self._state.runs[one.name]["status"] == "done" for one in self._sweep.runs)
            self._say(run, f"is done, as {done} of {len(self._sweep.runs)}")
        elif code is None and not self._stop.requested:
            self._say(run, "has stopped")  # not started here: nobody can tell why, and nobody has asked it to
            return False
        elif code in (0, None) or (self._stop.requested and code in (-signal.SIGTERM, -signal.SIGKILL)):
            self._state.set(run.name, "stopped", code, lines)
            self._say(run, f"has stopped at {agent_steps(job.place):,} agent steps")
        else:
            self._state.set(run.name, "failed", code, lines)
            ending = "".join(f"\n    {line}" for line in lines)
            self._say(run, f"failed with exit code {code}; its last lines in {job.log}:{ending}")
        return True

    def _say(self, run: SweepRun, text: str) -> None:
        self._tell(f"{run.name:<{self._width}}  {text}")
