"""A worker without environments: it fills slots with numbers that show which worker wrote them, and when.

It loads no torch, which would take ten times as long as the rest of its tests.
"""

import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from processes.messages import Kind, receive, send
from workers.shared_array import SharedArray

ROW_BYTES = 64 * 1024


@dataclass(frozen=True)
class PatternWorker:
    slots: SharedArray
    index: int
    restart_index: int
    server: Connection | None = None
    snapshot: dict[str, Any] | None = None
    raise_after: int = -1  # raise an exception after so many slots
    stop_after: int = -1  # stop the process after so many slots
    pause: float = 0.0  # seconds before each slot
    forks: bool = False  # fork a child, which keeps the pipe open
    hangs_at_start: bool = False  # the first process of worker 0 never reads a message

    def run(self, connection: Connection) -> None:
        if self.hangs_at_start and self.index == self.restart_index == 0:
            time.sleep(1000)
        if self.forks and not os.fork():
            time.sleep(1000)
        count = 0 if self.snapshot is None else self.snapshot["count"]
        while True:
            message = receive(connection)
            if message.kind == Kind.SNAPSHOT_REQUEST:
                send(connection, Kind.SNAPSHOT, payload={"index": self.index, "count": count})
                continue
            if count == self.raise_after:
                raise ValueError(f"worker {self.index} raises")
            if count == self.stop_after:
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(self.pause)
            for environment, row in enumerate(self.slots.array[self.index, message.index]):
                write_pattern(row, self.index, self.restart_index, count, environment)
            send(connection, Kind.SLOT_FILLED, message.index)
            count += 1


@dataclass(frozen=True)
class SilentServer:
    """An inference server that sends heartbeats but no results."""

    raises: bool = False

    def run(self, learner: Connection) -> None:
        while not self.raises:
            send(learner, Kind.HEARTBEAT, 1)
            time.sleep(0.05)
        raise ValueError("the server raises")


def write_pattern(row: NDArray[np.uint8], *numbers: int) -> None:
    row.view(np.int64).reshape(-1, 4)[:] = numbers


def read_pattern(row: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """(worker, restart index, count, environment); every byte is checked."""
    numbers = row.view(np.int64).reshape(-1, 4)
    assert (numbers == numbers[0]).all(), "a torn unroll"
    worker, restart_index, count, environment = numbers[0].tolist()
    return worker, restart_index, count, environment
