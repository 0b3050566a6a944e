"""Starts the learners of a run on this machine, and starts all of them again when one is lost."""

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but not in its list of names

from learners.group import LearnerLostError
from learners.rank import FOLDER, HERE, LIFELINE, STORE
from machine.stop_signals import STOP_SIGNALS, stopped_at_start
from options.command_line import flag_words
from processes.pool import RunFailedError
from run_files.checkpoint import OWN_FLAGS
from run_files.run_folder import CHECKPOINTS, numbered_checkpoints

FINAL_CODES = (1, 2)  # of learners that have said why the run cannot go on
KNOWN_CODES = {0, LearnerLostError.exit_code}  # of learners that have not been lost themselves
STOPPED_AT_START = {128 + signal.SIGTERM, -signal.SIGTERM}
POLL_SECONDS = 0.1
# The learners find each other there; gloo itself would take the address of this host's name.
NETWORK = dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), "lo0" if sys.platform == "darwin" else "lo")
END_SECONDS = 60.0  # that the others have to save and end after one has ended with an error
MOST_ERRORS = 1 << 20  # bytes that are kept of what a learner writes to stderr


class Learners:
    """The learners of one start, each in a process group of its own: signals come from here only."""

    def __init__(self, program: Sequence[str], learners: int) -> None:
        """Start the program as all learners, or as none."""
        # This process has the port for as long as the learners run, so no other program can take it before they do.
        self._store = TCPStore(HERE, 0, is_master=True, wait_for_workers=False)
        # The first one has the stderr of this process.
        self._errors = [tempfile.TemporaryFile() for _ in range(1, learners)]  # noqa: SIM115  # closed later
        lifeline, self._lifeline = os.pipe()  # the learners end when the second one is closed
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank, stderr in enumerate([None, *self._errors]):
                variables = {
                    **dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)),
                    **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(learners)),
                    **{"MASTER_ADDR": HERE, "MASTER_PORT": str(self._store.port), STORE: str(self._store.port)},
                    LIFELINE: str(lifeline),
                }
                own = {**NETWORK, **os.environ, **variables}
                self._processes.append(
                    subprocess.Popen(program, env=own, pass_fds=(lifeline,), process_group=0, stderr=stderr)
                )
        except OSError as error:
            self.close()
            raise RunFailedError(f"a learner could not be started ({error.strerror})") from None
        finally:
            os.close(lifeline)

    def exit_codes(self) -> list[int | None]:
        """Of each learner, by rank; None while it runs."""
        return [process.poll() for process in self._processes]

    def signal(self, number: int) -> None:
        for process in self._processes:
            process.send_signal(number)

    def saved_folder(self) -> Path | None:
        """The run's folder, if there is a checkpoint in it."""
        folder = Path(self._store.get(FOLDER).decode()) if self._store.check([FOLDER]) else None
        return folder if folder is not None and numbered_checkpoints(folder / CHECKPOINTS) else None

    def errors(self) -> bytes:
        """What a learner other than the first has written to stderr: the first one that has written something."""
        written = (os.pread(file.fileno(), MOST_ERRORS, 0) for file in self._errors)
        return next(filter(None, written), b"")

    def close(self) -> None:
        self.signal(signal.SIGKILL)
        for process in self._processes:
            process.wait()
        os.close(self._lifeline)
        for file in self._errors:
            file.close()


class Launcher:
    """Starts the learners, passes signals on to them, and starts them again when one is lost."""

    def __init__(self, learners: int, restarts: int, stable_seconds: float) -> None:
        """There are at most so many restarts in a row; a start that holds for `stable_seconds` ends the row."""
        self._learners = learners
        self._restarts = restarts
        self._stable_seconds = stable_seconds
        self._signals: list[int] = []  # for the learners
        self._asked_to_stop = False
        for number in (*STOP_SIGNALS, signal.SIGUSR1):
            ignored = signal.getsignal(number) == signal.SIG_IGN  # SIGHUP, in a run that was started under nohup
            if not ignored or number == signal.SIGUSR1:
                signal.signal(number, self._pass_on)

    def run(self, flags: Mapping[str, Any]) -> int:
        """Run main.py with these flags as all learners; return its exit code."""
        restarts_left = self._restarts
        while True:
            learners = Learners([sys.executable, sys.argv[0], *flag_words(flags)], self._learners)
            begun = time.monotonic()
            with closing(learners):
                codes = self._wait(learners)
                said = next((code for code in codes if code in FINAL_CODES), None)
                if said is not None and codes[0] not in FINAL_CODES:
                    write(sys.stderr, learners.errors())
                if said is not None or codes[0] == 0:  # the first one writes the run's files
                    return said or 0
                known = KNOWN_CODES | STOPPED_AT_START if self._asked_to_stop else KNOWN_CODES
                gone = [str(rank) for rank, code in enumerate(codes) if code not in known]
                if self._asked_to_stop and not gone:
                    return _code_of_end(next((code for code in codes if code in STOPPED_AT_START), codes[0]))
                folder = learners.saved_folder()
            lost = ", ".join(gone) or "one"
            if self._asked_to_stop:
                left = "" if folder is None else "; its last checkpoint is left"
                raise RunFailedError(f"learner {lost} was lost before the run was saved{left}.")
            if time.monotonic() - begun > self._stable_seconds:
                restarts_left = self._restarts
            if not restarts_left:
                raise RunFailedError(
                    f"learner {lost} was lost, and --learner_restarts={self._restarts} are used up; a larger number "
                    "would go on longer."
                )
            restarts_left -= 1
            if folder is not None:
                flags = resumed(flags, folder)
            has_saved = flags.get("load_model_url") is not None and not flags.get("load_weights_only")
            place = "from the last checkpoint" if has_saved else "from the beginning, because nothing was saved yet"
            write(sys.stdout, f"learner {lost} was lost: all learners start again {place}\n".encode())

    def _wait(self, learners: Learners) -> list[int]:
        """Wait until all have ended, at most END_SECONDS after the first one that failed; return the exit codes."""
        self._signals.clear()  # those that came before there was anybody to obey them
        if self._asked_to_stop:
            self._signals.append(signal.SIGTERM)
        failed_at = math.inf
        while None in (codes := learners.exit_codes()):
            if any(codes):
                failed_at = min(failed_at, time.monotonic())
            if time.monotonic() - failed_at > END_SECONDS:
                self._signals.append(signal.SIGKILL)
            while self._signals:
                learners.signal(self._signals.pop(0))
            time.sleep(POLL_SECONDS)
        return [code for code in codes if code is not None]

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._asked_to_stop = self._asked_to_stop or number in STOP_SIGNALS
        # A Python that has only begun to start answers SIGINT with a traceback.
        self._signals.append(signal.SIGTERM if number in STOP_SIGNALS else number)


def resumed(flags: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """The flags that resume the run of a folder."""
    others = {name: value for name, value in flags.items() if name not in OWN_FLAGS}
    return {"op_mode": "train_w_load", "load_model_url": str(folder), **others}


def _code_of_end(code: int) -> int:
    """0, unless a stop signal came before the learner with this exit code began its work."""
    if code == -signal.SIGTERM:  # it had not come to its first line
        return stopped_at_start()
    return 128 + signal.SIGINT if code == 128 + signal.SIGTERM else 0


def write(stream: TextIO, content: bytes) -> None:
    """Pass on what a learner has written, as long as somebody reads it."""
    with suppress(OSError):
        stream.flush()
        stream.buffer.write(content)
        stream.buffer.flush()
