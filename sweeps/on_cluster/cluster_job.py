"""One run of a sweep on a node of a cluster, as seen from the sweep."""

import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import ray
from ray.exceptions import RayError

from cluster.nodes import call_actor, why_lost
from options.command_line import flag_words
from run_files.growing_file import NewLines
from run_files.job_runs import JOB_LOG
from sweeps.files import LOCK, resumable, try_lock
from sweeps.on_cluster.node_job import RESULTS
from sweeps.on_cluster.run_files_transfer import RunFilesTransfer

SYNC_SECONDS = 0.5  # between two looks at the files of a run
RETRY_SECONDS = 5.0  # until files are fetched again that could not be written


class ClusterJob:
    """Starts the run in an actor on a node, and brings its files into the job's folder until it has ended.

    A thread does all of this. `is_running` is true until the last byte is here, or the node is lost.
    """

    def __init__(
        self,
        folder: Path,
        program: str,
        node: str,
        make_actor: Callable[[], Any],  # takes the room on the node
        on_end: Callable[[], None],  # frees it
        print_line: Callable[[str], None],
    ) -> None:
        self.folder = folder
        self.log = folder / JOB_LOG
        self._program = program  # relative to the checkout
        self._actor: Any = None
        self._node = node
        self._make_actor, self._on_end = make_actor, on_end
        self._print_line = print_line
        self._exit_code: int | None = None
        self._why_lost = ""
        self._signals: list[int] = []  # not sent yet
        self._stops = 0  # requests to stop
        self._thread: threading.Thread | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._new_lines = NewLines(self.log)

    def start(self, flags: Mapping[str, Any]) -> bool:
        self._new_lines.skip()
        lock = try_lock(self.folder / LOCK)
        if lock is None:
            raise BlockingIOError(0, "it is running on this machine already; it ends by itself, or by its process")
        self._actor = self._make_actor()  # last: the thread frees the room again
        self._thread = threading.Thread(target=self._work, args=(dict(flags), lock), name="cluster job", daemon=True)
        self._thread.start()
        return True

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def exit_code(self) -> int | None:
        return self._exit_code

    @property
    def why_lost(self) -> str:
        return self._why_lost

    @property
    def where(self) -> str:
        return f" on node {self._node}"

    def new_log_lines(self) -> list[str]:
        return self._new_lines.read_text()

    def signal(self, number: signal.Signals) -> None:
        self._stops += number == signal.SIGTERM
        self._signals.append(int(number))  # sent by the thread: a run that has not started yet gets it then

    def _work(self, flags: Mapping[str, Any], lock: BinaryIO) -> None:
        with lock:
            try:
                self._exit_code = self._run(flags)
            except RayError as error:
                self._why_lost = why_lost(error, self._node)
            except OSError as error:  # files of this machine
                self._why_lost = f"its files could not be written ({error.strerror})"
            finally:
                self._close()

    def _close(self) -> None:
        with suppress(RayError):
            ray.kill(self._actor)  # its guard then ends the run and removes its folder
        self._on_end()

    def _run(self, flags: Mapping[str, Any]) -> int:
        """Start or continue the run; return its exit code once all of its files are here."""
        files = RunFilesTransfer(self.folder, self._call("folder"), self._call)
        parent = resumable(self.folder)
        files.send(parent)
        mode = ["--op_mode=train"]
        if parent is not None:
            mode = ["--op_mode=train_w_load", f"--load_model_url={RESULTS}/{parent.name}"]
        # Relative paths: a checkpoint keeps --results_dir, and a folder of the node is not one to continue in later.
        self._call("start", self._program, [*mode, f"--results_dir={RESULTS}", *flag_words(flags)])
        return self._follow(files)

    def _follow(self, files: RunFilesTransfer) -> int:
        """Bring the files until the run has ended. A full disk here does not end it: its files come later."""
        code, said = None, False
        while True:
            while self._signals and code is None:
                self._call("signal", self._signals.pop(0))
            code, stamps = self._call("state")
            try:
                files.fetch(stamps, ended=code is not None)
            except RayError:  # some are an OSError too
                raise
            except OSError as error:
                if not said:
                    said = True
                    self._print_line(f"{self.folder.name}: its files cannot be written now ({error.strerror})")
                time.sleep(RETRY_SECONDS)
                if code is not None and self._stops > 1:  # CTRL+C twice: nobody waits for room on the disk
                    raise
                continue
            if code is not None:
                return int(code)
            time.sleep(SYNC_SECONDS)

    def _call(self, method: str, *arguments: Any) -> Any:
        return call_actor(self._actor, method, *arguments)
