"""A worker without environments: it fills slots with numbers that show who wrote them, and whether they are whole.

It loads no torch, which takes ten times as long as all that its tests do with it.
"""

import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

from workers.messages import receive_order, send_alive, send_filled, send_snapshot
from workers.slots import Slots

ROW_BYTES = 64 * 1024


@dataclass(frozen=True)
class PatternWorker:
    slots: Slots
    index: int
    incarnation: int
    raise_after: int = -1  # fill so many slots, then raise an exception
    stop_after: int = -1  # fill so many slots, then stop without a word
    pause: float = 0.0  # seconds before each slot

    def run(self, connection: Connection, server: Connection | None = None) -> None:
        count = 0
        while True:
            order = receive_order(connection)
            if order is None:
                time.sleep(self.pause)
                send_snapshot(connection, {"index": self.index, "count": count})
                continue
            if isinstance(order, dict):
                count = order["count"]
                continue
            if count == self.raise_after:
                raise ValueError(f"worker {self.index} has had enough")
            if count == self.stop_after:
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(self.pause)
            for environment, row in enumerate(self.slots.rows[self.index, order]):
                write_pattern(row, self.index, self.incarnation, count, environment)
            send_filled(connection, order)
            count += 1


@dataclass(frozen=True)
class SilentServer:
    """An inference server that answers nobody."""

    raises: bool = False

    def run(self, learner: Connection) -> None:
        while not self.raises:
            send_alive(learner, at_work=True)
            time.sleep(0.05)
        raise ValueError("the server has had enough")


def write_pattern(row: NDArray[np.uint8], *numbers: int) -> None:
    row.view(np.int64).reshape(-1, 4)[:] = numbers


def read_pattern(row: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """(worker, incarnation, count, environment), after a look at every byte."""
    numbers = row.view(np.int64).reshape(-1, 4)
    assert (numbers == numbers[0]).all(), "a torn unroll"
    worker, incarnation, count, environment = numbers[0].tolist()
    return worker, incarnation, count, environment
