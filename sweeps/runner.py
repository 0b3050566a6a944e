"""Runs the jobs of a sweep, a given number at once, each in a process of its own."""

import math
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path

from machine.stop_signals import SAME_SIGNAL_SECONDS, StopSignals
from run_files.growing_file import last_lines
from sweeps.files import LOCK, agent_steps, has_reports, is_complete, is_locked, resumable
from sweeps.places import Places, RunJob
from sweeps.plan import SweepRun
from sweeps.run_source import RunSource
from sweeps.state import DONE, ENDED, FAILED, PRUNED, RUNNING, STOPPED, SweepState

POLL_SECONDS = 0.2
LAST_LINES = 5  # of the log of a run, that are kept with its end
MOST_LOSSES = 5  # of a run without a newer checkpoint, until it counts as failed
MOST_FAILED_STARTS = 3  # runs in a row that fail before their first report, until no further one is started
HOPELESS, OLDER_HOPELESS = "hopeless", "pruned_at"  # in the state of a run that was stopped as hopeless
SECONDS_BETWEEN_SIGNALS = 2 * SAME_SIGNAL_SECONDS  # main.py counts two signals within half of this as one


# The exit codes of a run that was stopped before it could save.
STOPPED_AT_START = (-signal.SIGTERM, -signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGINT)


class SweepRunner:
    """Starts the waiting jobs, watches the running ones, and records how each one ends."""

    def __init__(
        self,
        source: RunSource,
        folder: Path,
        state: SweepState,
        places: Places,
        stop: StopSignals,
        print_line: Callable[[str], None],
        write_table: Callable[[], None],
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """`write_table` is called whenever a run has started or ended."""
        self._source = source
        self._folder = folder
        self._state = state
        self._places = places
        self._stop = stop
        self._print_line = print_line
        self._write_table = write_table
        self._poll_seconds = poll_seconds
        self._active: dict[str, tuple[SweepRun, RunJob]] = {}
        self._waiting: deque[SweepRun] = deque()
        self._lost: Counter[tuple[str, int]] = Counter()  # how often a run was lost at its agent steps
        self._judged: set[str] = set()  # runs that were found hopeless
        self._left: set[str] = set()  # runs of an earlier command that still run, and are none of this one
        self._failed_starts = 0  # the latest runs in a row that failed before their first report
        self._gave_up = False
        self._stop_pacing = StopPacing()
        self._width = max((len(run.name) for run in source.runs), default=0)

    def run(self) -> None:
        """Run until all jobs have ended, or until the running ones have stopped after a stop signal."""
        self._waiting = self._find_waiting()
        self._left = self._find_left()
        while self._active or (self._has_more and not self._stop.requested):
            self._forward_signals()
            self._start_jobs()
            for run, job in list(self._active.values()):
                is_running = job.is_running  # before the log is read, so that its last lines are not missed
                self._print_progress(run, job)
                if not is_running:
                    del self._active[run.name]
                    if self._record_end(run, job):
                        self._give_up_if_all_fail(run)
                    else:
                        self._waiting.appendleft(run)
                    self._write_table()
                else:
                    self._prune_if_hopeless(run, job)
            time.sleep(self._poll_seconds)

    @property
    def _has_more(self) -> bool:
        return not self._gave_up and (bool(self._waiting) or self._source.has_more)

    def _start_jobs(self) -> None:
        """Start as many jobs as there is room for."""
        while self._has_more and not self._stop.requested and self._places.has_room(self._count_running()):
            run = self._waiting.popleft() if self._waiting else self._source.next_run()
            if run is not None:
                self._try_start(run)
                self._write_table()

    def _count_running(self) -> int:
        self._left = {name for name in self._left if self._is_running(name)}
        return len(self._active) + len(self._left)

    def _find_left(self) -> set[str]:
        """The runs that only an earlier command has, and that still run because only their sweep was killed."""
        others = self._state.runs.keys() - {run.name for run in self._source.runs}
        left = {name for name in others if self._is_running(name)}
        if left:
            names = ", ".join(sorted(left))
            self._print_line(f"still running from an earlier command, and counted among the runs at once: {names}")
        return left

    def _find_waiting(self) -> deque[SweepRun]:
        """The runs that have not ended. Those that are still running come first: only their sweep was killed.

        Those that failed come last, so that they cannot keep the others from being started.
        """
        waiting, runs = [], self._source.runs
        for run in runs:
            if self._is_done(run):
                self._set_end(run, DONE)
            elif self._was_pruned(run) and not self._is_running(run.name):
                self._set_end(run, PRUNED)
            else:
                waiting.append(run)
        if len(waiting) < len(runs):
            self._print_line(f"{len(runs) - len(waiting)} of {self._source.total} runs are done already")
        return deque(sorted(waiting, key=lambda run: (not self._is_running(run.name), self._status(run) == FAILED)))

    def _job_folder(self, run: SweepRun) -> Path:
        return self._folder / run.name

    def _is_done(self, run: SweepRun) -> bool:
        return not self._is_running(run.name) and is_complete(self._job_folder(run), run.config)

    def _is_running(self, name: str) -> bool:
        return is_locked(self._folder / name / LOCK)

    def _status(self, run: SweepRun) -> str:
        return str(self._state.runs[run.name]["status"])

    def _try_start(self, run: SweepRun) -> None:
        try:
            self._start(run)
        except OSError as error:
            self._active.pop(run.name, None)
            self._set_end(run, FAILED, None, [str(error)])
            self._print(run, f"could not be started ({error.strerror})")
            self._give_up_if_all_fail(run)

    def _start(self, run: SweepRun) -> None:
        job = self._places.make_job(self._job_folder(run))
        parent = resumable(job.folder)
        console = "off" if run.flags.get("console") == "off" else "plain"
        self._active[run.name] = run, job
        # Given always, because a resumed run would take what the sweep no longer sets from its checkpoint.
        ends = {name: run.config.flags()[name] for name in ("environment_max_steps", "stop_at_return")}
        if not job.start({**ends, **run.flags, "console": console}):
            self._print(run, "is running already; waiting for it")
        elif parent is None:
            self._print(run, f"starts{job.where}, log in {job.log}")
        else:
            self._print(run, f"continues at {agent_steps(job.folder):,} agent steps{job.where}, log in {job.log}")
        self._state.set(run.name, RUNNING)

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

    def _print_progress(self, run: SweepRun, job: RunJob) -> None:
        for line in job.new_log_lines():
            if line.startswith("done "):
                self._print(run, line)

    def _record_end(self, run: SweepRun, job: RunJob) -> bool:
        """Record how a job has ended. False if it must be started again."""
        code, lines = job.exit_code, last_lines(job.log, LAST_LINES) if job.log.exists() else []
        if code in (0, None) and self._is_done(run):
            self._set_end(run, DONE, code)
            ended = sum(self._status(one) in ENDED for one in self._source.runs)
            self._print(run, f"is done ({ended} of {self._source.total})")
        elif code in (0, None) and self._was_pruned(run):
            self._set_end(run, PRUNED, code)
            self._print(run, f"is pruned at {agent_steps(job.folder):,} agent steps, and can be resumed by hand")
        elif code is None and not self._stop.requested:
            self._lost[run.name, agent_steps(job.folder)] += 1
            if self._lost[run.name, agent_steps(job.folder)] < MOST_LOSSES:
                self._print(run, f"{job.why_lost}; it goes on from its last checkpoint")
                return False
            self._set_end(run, FAILED, None, lines)
            self._print(run, f"{job.why_lost}, for the {MOST_LOSSES}th time without a newer checkpoint")
        elif code in (0, None) or (self._stop.requested and code in STOPPED_AT_START):
            self._state.set(run.name, STOPPED, code, lines)
            self._print(run, f"has stopped at {agent_steps(job.folder):,} agent steps")
        else:
            self._set_end(run, FAILED, code, lines)
            ending = "".join(f"\n    {line}" for line in lines)
            self._print(run, f"failed with exit code {code}; the last lines of {job.log}:{ending}")
        return True

    def _prune_if_hopeless(self, run: SweepRun, job: RunJob) -> None:
        """Stop a run in good order, as CTRL+C would, if its source finds it hopeless. It is signalled once.

        A run whose checkpoint is complete has only its evaluation before it, and counts as done.
        """
        if run.name in self._judged or not (self._was_pruned(run) or self._source.is_hopeless(run)):
            return
        self._judged.add(run.name)
        if is_complete(job.folder, run.config):
            return
        self._state.runs[run.name][HOPELESS] = True
        self._state.set(run.name, RUNNING)  # saved first: a sweep that is killed now knows it when it goes on
        self._print(run, "is worse than the others were at its number of steps; stopping it")
        job.signal(signal.SIGINT)

    def _set_end(self, run: SweepRun, status: str, code: int | None = None, lines: Sequence[str] = ()) -> None:
        """Record that a run has ended, and tell its source, which may choose further runs by it."""
        self._source.ended(run, status)
        self._state.set(run.name, status, code, lines)

    def _was_pruned(self, run: SweepRun) -> bool:
        return not {HOPELESS, OLDER_HOPELESS}.isdisjoint(self._state.runs[run.name])

    def _give_up_if_all_fail(self, run: SweepRun) -> None:
        """Start no further run if the latest ones failed at once: whatever ended them would end the others too."""
        failed_at_once = self._status(run) == FAILED and not has_reports(self._job_folder(run))
        self._failed_starts = self._failed_starts + 1 if failed_at_once else 0
        if self._failed_starts >= MOST_FAILED_STARTS and self._has_more:
            self._gave_up = True
            self._print_line(
                f"{MOST_FAILED_STARTS} runs in a row failed before their first report, so no further one is started; "
                "mend the cause, and the same command goes on"
            )

    def _print(self, run: SweepRun, text: str) -> None:
        self._width = max(self._width, len(run.name))
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
