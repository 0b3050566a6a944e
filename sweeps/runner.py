"""Runs the jobs of a sweep, a given number at once, each in a process of its own."""

import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path

from machine.stop_signals import SAME_SIGNAL_SECONDS, StopSignals
from run_files.metrics import NewLines, last_lines
from run_files.run_folder import JOB_LOG
from sweeps.job import Job, Places, progress, resumable
from sweeps.plan import Sweep
from sweeps.state import DONE, ENDED, FAILED, PRUNED, RUNNING, STOPPED, SweepRun, SweepState
from sweeps.table import write_table

POLL_SECONDS = 0.1
LAST_LINES = 5  # of the log of a run, that are kept with its end
MOST_LOSSES = 5  # of a run without a newer checkpoint, until it counts as failed
SECONDS_BETWEEN_SIGNALS = 2 * SAME_SIGNAL_SECONDS  # main.py counts two signals within half of this as one
# The exit codes of a run that was stopped before it could save.
STOPPED_AT_START = (-signal.SIGTERM, -signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGINT)


class SweepRunner:
    """Starts the waiting jobs, watches the running ones, and records how each one ends."""

    def __init__(
        self, sweep: Sweep, state: SweepState, places: Places, stop: StopSignals, print_line: Callable[[str], None]
    ) -> None:
        self._sweep = sweep
        self._state = state
        self._places = places
        self._stop = stop
        self._print_line = print_line
        self._active: dict[str, tuple[SweepRun, Job, NewLines]] = {}  # with the new lines of its log
        self._waiting: deque[SweepRun] = deque()
        self._lost: Counter[tuple[str, int]] = Counter()  # how often a run was lost at its agent steps
        self._hopeless: set[str] = set()
        self._stops_sent, self._stop_sent_at = 0, 0.0
        self._width = max((len(run.name) for run in sweep.runs), default=0)

    def run(self) -> None:
        """Run until all jobs have ended, or until the running ones have stopped after a stop signal."""
        self._waiting = self._find_waiting()
        while self._active or (not self._stop.requested and (self._waiting or self._draw())):
            self._forward_signals()
            self._start_jobs()
            for run, job, log in list(self._active.values()):
                is_running = job.is_running  # before the log is read, so that its last lines are not missed
                for line in log.read_text():
                    if line.startswith("done "):
                        self._print(run, line)
                if is_running:
                    self._stop_if_hopeless(run, job)
                else:
                    del self._active[run.name]
                    self._record_end(run, job)
                    write_table(self._sweep, self._state)
            time.sleep(POLL_SECONDS)

    def _draw(self) -> bool:
        """Let a search choose another run. False if there is no further one."""
        if (run := self._sweep.next_run()) is not None:
            self._waiting.append(run)
        return run is not None

    def _start_jobs(self) -> None:
        """Start as many jobs as there is room for."""
        has_room = self._places.has_room
        while not self._stop.requested and has_room(len(self._active)) and (self._waiting or self._draw()):
            self._start(self._waiting.popleft())
            write_table(self._sweep, self._state)

    def _find_waiting(self) -> deque[SweepRun]:
        """The runs that have not ended. Those that failed come last, so that they do not keep others from starting."""
        waiting, runs = [], self._sweep.runs
        for run in runs:
            if self._status(run) != PRUNED and not self._is_done(run):
                waiting.append(run)
            elif self._status(run) != PRUNED:
                self._set_end(run, DONE)
        if len(waiting) < len(runs):
            self._print_line(f"{len(runs) - len(waiting)} of {self._sweep.total} runs are done already")
        return deque(sorted(waiting, key=lambda run: self._status(run) == FAILED))

    def _job_folder(self, run: SweepRun) -> Path:
        return self._state.folder / run.name

    def _is_done(self, run: SweepRun) -> bool:
        return progress(self._job_folder(run), run.config)[1]

    def _steps(self, run: SweepRun) -> int:
        return progress(self._job_folder(run), run.config)[0]

    def _status(self, run: SweepRun) -> str:
        return str(self._state.runs[run.name]["status"])

    def _start(self, run: SweepRun) -> None:
        folder = self._job_folder(run)
        begins = resumable(folder) is None
        log = NewLines(folder / JOB_LOG)
        log.read_text()  # what earlier starts have written
        # The ends are given always: a resumed run would take what the sweep no longer sets from its checkpoint.
        ends = {name: run.config.flags()[name] for name in ("environment_max_steps", "stop_at_return", "stop_at")}
        console = "off" if run.flags.get("console") == "off" else "plain"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            job = self._places.start(folder, {**ends, **run.flags, "console": console})
        except OSError as error:
            self._set_end(run, FAILED, None, [str(error)])
            self._print(run, f"could not be started ({error.strerror})")
            return
        self._active[run.name] = run, job, log
        does = "starts" if begins else f"continues at {self._steps(run):,} agent steps"
        self._print(run, f"{does}{job.where}, log in {folder / JOB_LOG}")
        self._state.set(run.name, RUNNING)

    def _forward_signals(self) -> None:
        if self._stop.save_now:
            self._stop.save_now = False
            for _, job, _ in self._active.values():
                job.signal(signal.SIGUSR1)
        wanted = self._stop.requested + self._stop.stop_now
        if wanted > self._stops_sent and time.monotonic() > self._stop_sent_at + SECONDS_BETWEEN_SIGNALS:
            self._stops_sent, self._stop_sent_at = self._stops_sent + 1, time.monotonic()
            hint = "" if self._stop.stop_now else "; CTRL+C again makes them stop sooner"
            self._print_line(f"stopping {len(self._active)} run(s){hint}")
            for _, job, _ in self._active.values():
                job.signal(signal.SIGTERM)

    def _record_end(self, run: SweepRun, job: Job) -> None:
        """Record how a job has ended. One that was lost waits again, to be started elsewhere."""
        log = self._job_folder(run) / JOB_LOG
        code, lines = job.exit_code, last_lines(log, LAST_LINES) if log.exists() else []
        if code in (0, None) and self._is_done(run):
            self._set_end(run, DONE, code)
            ended = sum(self._status(one) in ENDED and one not in self._waiting for one in self._sweep.runs)
            self._print(run, f"is done ({ended} of {self._sweep.total})")
        elif code in (0, None) and run.name in self._hopeless:
            self._set_end(run, PRUNED, code)
            self._print(run, f"is pruned at {self._steps(run):,} agent steps, and can be resumed by hand")
        elif code is None and not self._stop.requested:
            self._record_loss(run, job, lines)
        elif code in (0, None) or (self._stop.requested and code in STOPPED_AT_START):
            self._state.set(run.name, STOPPED, code, lines)
            self._print(run, f"has stopped at {self._steps(run):,} agent steps")
        else:
            self._set_end(run, FAILED, code, lines)
            ending = "".join(f"\n    {line}" for line in lines)
            self._print(run, f"failed with exit code {code}; the last lines of {log}:{ending}")

    def _record_loss(self, run: SweepRun, job: Job, lines: Sequence[str]) -> None:
        at = run.name, self._steps(run)
        self._lost[at] += 1
        if self._lost[at] < MOST_LOSSES:
            self._print(run, f"{job.why_lost}; it goes on from its last checkpoint")
            self._waiting.appendleft(run)
        else:
            self._set_end(run, FAILED, None, lines)
            self._print(run, f"{job.why_lost}, for the {MOST_LOSSES}th time without a newer checkpoint")

    def _stop_if_hopeless(self, run: SweepRun, job: Job) -> None:
        """Stop a run in good order, as CTRL+C would, if a search finds it hopeless."""
        if run.name not in self._hopeless and self._sweep.is_hopeless(run):
            self._hopeless.add(run.name)
            self._print(run, "is worse than the others were at its number of steps; stopping it")
            job.signal(signal.SIGINT)

    def _set_end(self, run: SweepRun, status: str, code: int | None = None, lines: Sequence[str] = ()) -> None:
        """Record that a run has ended, and tell the sweep, which may choose further runs by it."""
        self._sweep.ended(run, status)
        self._state.set(run.name, status, code, lines)

    def _print(self, run: SweepRun, text: str) -> None:
        self._width = max(self._width, len(run.name))
        self._print_line(f"{run.name:<{self._width}}  {text}")
