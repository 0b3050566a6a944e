"""Starts the learners of a run, on this machine or elsewhere, and starts all of them again when one is lost."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, Protocol

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but not in its list of names

from learners.group import LearnerLostError
from learners.rank import LIFELINE, NEWS, STORE
from machine.start import stopped_at_start
from machine.stop_signals import STOP_SIGNALS
from option_flags import Config
from options.command_line import flag_words
from options.presets import merged
from options.rules import UsageError
from processes.failures import RunFailedError
from run_files.checkpoint import OWN_FLAGS, find_checkpoint
from run_files.inherited_options import inherited_options, why_complete
from run_files.run_folder import CHECKPOINTS, numbered_checkpoints

FINAL_CODES = (1, 2)  # of learners that have said why the run cannot go on
KNOWN_CODES = (0, LearnerLostError.exit_code)  # of learners that have ended in good order
POLL_SECONDS = 0.05
END_SECONDS = 60.0  # that the others have to save and end after one has ended with an error
STABLE_SECONDS = 600.0  # a start that holds so much longer than it takes to notice a hang is no failed one


class Started(Protocol):
    """The learners of one start."""

    begun: float

    def signal(self, number: int) -> None:
        """Send a signal to all learners. Signal handlers call this."""

    def wait(self) -> list[int]:
        """Wait until all have ended, at most END_SECONDS after the first one that failed; return the exit codes."""

    def saved_folder(self) -> Path | None:
        """The run's folder, if there is a checkpoint in it."""

    def print_errors(self) -> None:
        """Show what a learner other than the first has written: the first one that has written something."""

    def close(self) -> None:
        """Kill those that are left."""


# Starts main.py with these flags as all learners. The function says whether the user wants the run to end.
Start = Callable[[Mapping[str, Any], Callable[[], bool]], Started]


class StartStoppedError(Exception):
    """The user wanted the run to end before its learners were started."""


class Learners:
    """The processes of one start on this machine, each in a process group of its own: signals come from here only."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.processes: list[subprocess.Popen[bytes]] = []
        self._errors: list[IO[bytes]] = []  # what all but the first write to stderr
        self._lifeline_read, self._lifeline = os.pipe()  # the learners end when the second one is closed
        self._news, self._news_write = os.pipe()  # for the name of the run's folder
        os.set_blocking(self._news, False)
        # This process has the port for as long as the learners run, so no other program can take it before they do.
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def add(self, program: Sequence[str], learners: int) -> None:
        """Start the next learner."""
        rank = len(self.processes)
        variables: dict[str, Any] = {"RANK": rank, "WORLD_SIZE": learners, "LOCAL_RANK": rank}
        variables |= {"LOCAL_WORLD_SIZE": learners, STORE: f"127.0.0.1:{self._store.port}"}
        variables |= {
            "MASTER_PORT": self._store.port,
            LIFELINE: self._lifeline_read,
        }
        if rank == 0:
            variables[NEWS] = self._news_write
        else:
            self._errors.append(tempfile.TemporaryFile())  # noqa: SIM115  # closed later
        environment = {
            **os.environ,
            **{name: str(value) for name, value in variables.items()},
            "MASTER_ADDR": "127.0.0.1",
            "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
        }
        self.processes.append(
            subprocess.Popen(
                program,
                env=environment,
                pass_fds=(self._lifeline_read, *((self._news_write,) if rank == 0 else ())),
                process_group=0,
                stderr=self._errors[-1] if rank else None,
            )
        )

    def signal(self, number: int) -> None:
        for process in self.processes:
            process.send_signal(number)

    def wait(self) -> list[int]:
        failed_at = None
        while any(process.poll() is None for process in self.processes):
            if failed_at is None and any(process.poll() for process in self.processes):
                failed_at = time.monotonic()
            if failed_at is not None and time.monotonic() - failed_at > END_SECONDS:
                self.signal(signal.SIGKILL)
            time.sleep(POLL_SECONDS)
        return [process.wait() for process in self.processes]

    def saved_folder(self) -> Path | None:
        with suppress(BlockingIOError):
            if text := os.read(self._news, 4096):
                folder = Path(os.fsdecode(text.splitlines()[-1]))
                return folder if numbered_checkpoints(folder / CHECKPOINTS) else None
        return None

    def print_errors(self) -> None:
        for file in self._errors:
            file.seek(0)
            if text := file.read():
                sys.stderr.buffer.write(text)
                return

    def close(self) -> None:
        self.signal(signal.SIGKILL)
        for process in self.processes:
            process.wait()
        for descriptor in (self._lifeline_read, self._lifeline, self._news, self._news_write):
            os.close(descriptor)
        for file in self._errors:
            file.close()


def start_here(learners: int) -> Start:
    """For learners on this machine."""
    return lambda flags, is_stopping: start_learners([sys.executable, sys.argv[0], *flag_words(flags)], learners)


def start_learners(program: Sequence[str], learners: int) -> Learners:
    """Start the program as all learners, or as none."""
    started = Learners()
    try:
        for _ in range(learners):
            started.add(program, learners)
    except OSError as error:
        started.close()
        raise RunFailedError(f"a learner could not be started ({error.strerror})") from None
    return started


def resumed(flags: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """The flags that resume the run of a folder."""
    others = {name: value for name, value in flags.items() if name not in OWN_FLAGS}
    return {"op_mode": "train_w_load", "load_model_url": str(folder), **others}


def why_over(flags: Mapping[str, Any], folder: Path) -> str | None:
    """A sentence, if the newest checkpoint of a run's folder is that of its end; None if the run can go on from it."""
    own = resumed(flags, folder)
    try:
        checkpoint = find_checkpoint(str(folder))
        config = Config.from_flags(merged(inherited_options(checkpoint, own), own))
    except UsageError:  # also where another machine has the folder; who resumes the run will say so
        return None
    return why_complete(config, checkpoint)


class Launcher:
    """Starts the learners, passes signals on to them, and starts them again when one is lost."""

    def __init__(self, start: Start, restarts: int, silence_limit: float = 0.0) -> None:
        """`silence_limit` is how long a learner may be silent: a hang is noticed no earlier."""
        self._start = start
        self._stable_seconds = STABLE_SECONDS + 2 * silence_limit
        self._restarts = self._restarts_left = restarts
        self._running: Started | None = None
        self._asked_to_stop = False
        for number in (*STOP_SIGNALS, signal.SIGUSR1):
            ignored = signal.getsignal(number) == signal.SIG_IGN  # SIGHUP, in a run that was started under nohup
            if not ignored or number == signal.SIGUSR1:
                signal.signal(number, self._pass_on)

    def run(self, flags: Mapping[str, Any]) -> int:
        """Run main.py with these flags as all learners; return its exit code."""
        while True:
            try:
                codes, folder = self._run_once(flags)
            except StartStoppedError:
                return stopped_at_start()
            if not any(codes):
                return 0
            said = next((code for code in codes if code in FINAL_CODES), None)
            if said is not None or self._asked_to_stop:
                return said or code_of_stop(codes)
            complete = None if folder is None else why_over(flags, folder)
            lost = ", ".join(str(rank) for rank, code in enumerate(codes) if code not in KNOWN_CODES) or "one"
            if complete is not None:
                text = f"learner {lost} was lost at the end of the run, which does not start again: {complete}"
                if codes[0]:  # what the first learner does at the end may be missing: a report, an evaluation
                    print(f"main.py: {text}", file=sys.stderr)
                    return 1
                with suppress(OSError):  # nobody reads the output any more
                    print(text, flush=True)
                return 0
            if not self._restarts_left:
                print(
                    f"main.py: learner {lost} was lost, and --learner_restarts={self._restarts} are used up; a larger "
                    "number would go on longer.",
                    file=sys.stderr,
                )
                return 1
            self._restarts_left -= 1
            if folder is not None:
                flags = resumed(flags, folder)
            has_saved = flags.get("load_model_url") is not None
            place = "from the last checkpoint" if has_saved else "from the beginning, because nothing was saved yet"
            with suppress(OSError):  # nobody reads the output any more
                print(f"learner {lost} was lost: all learners start again {place}", flush=True)

    def _run_once(self, flags: Mapping[str, Any]) -> tuple[list[int], Path | None]:
        """Run the learners until all have ended; return their exit codes, and what can be resumed after an error."""
        learners = self._start(flags, lambda: self._asked_to_stop)
        self._running = learners
        try:
            if self._asked_to_stop:  # while they were starting
                learners.signal(signal.SIGTERM)
            codes = learners.wait()
            if any(code in FINAL_CODES for code in codes) and codes[0] not in FINAL_CODES:
                learners.print_errors()
            if time.monotonic() - learners.begun > self._stable_seconds:
                self._restarts_left = self._restarts
            return codes, learners.saved_folder() if any(codes) else None
        finally:
            self._running = None
            learners.close()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._asked_to_stop = self._asked_to_stop or number in STOP_SIGNALS
        if self._running is not None:
            # A Python that has only begun to start answers SIGINT with a traceback.
            self._running.signal(signal.SIGTERM if number == signal.SIGINT else number)


def code_of_stop(codes: Sequence[int]) -> int:
    """The exit code after a stop signal: 0, unless it came before the first learner began its work."""
    if codes[0] == -signal.SIGTERM:  # it had not come to its first line
        return stopped_at_start()
    return 128 + signal.SIGINT if codes[0] == 128 + signal.SIGTERM else 0
