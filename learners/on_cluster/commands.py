"""Commands of `python -m cluster.command` to a run whose learners are on a cluster."""

import os
import signal
import threading
import time
from contextlib import suppress

from cluster.run_state import COMMAND_SECONDS, RunState

SIGNALS = {"save": signal.SIGUSR1, "stop": signal.SIGTERM}  # to this process, which passes them on to all learners


class Commands:
    """Shows the state of the run in the cluster, and reads commands, in a thread of its own.

    The thread waits for Ray's head where that does not answer, so that nobody else has to.
    """

    def __init__(self) -> None:
        self._run_state: RunState | None = None  # made by the thread, because that asks the head
        self._shown: tuple[dict[str, str], list[str]] = {}, []
        self._begun = time.time()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def show(self, run: str, line: str, learners: list[str]) -> None:
        """The name of the run's folder, how far the run is, and a line about each learner."""
        self._shown = {"run": run, "line": line}, learners

    def close(self) -> None:
        """The run has ended: nothing about it stays in the cluster."""
        self._closed.set()
        self._thread.join(2 * COMMAND_SECONDS)

    def _work(self) -> None:
        while not self._closed.wait(COMMAND_SECONDS):
            with suppress(Exception):  # the head does not answer now; whether that ends the run is found elsewhere
                self._exchange()
        with suppress(Exception):
            if self._run_state is not None:
                self._run_state.remove()

    def _exchange(self) -> None:
        if self._run_state is None:
            self._run_state = RunState(self._begun)
        self._run_state.status, learners = self._shown
        for command in self._run_state.exchange(learners):
            if command in SIGNALS:
                with suppress(OSError):  # nobody reads the output any more
                    print(f"{command}: asked for by a command from the cluster", flush=True)
                os.kill(os.getpid(), SIGNALS[command])
