"""A worker without games: it writes the same recorded unrolls again and again, as fast as it gets slots.

It does not load torch, so 64 such processes start in seconds.
"""

from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from workers.messages import receive_order, send_filled
from workers.shared_block import SharedBlock
from workers.slots import Slots


@dataclass(frozen=True)
class RecordedWorker:
    recording: Slots  # of one worker with one slot
    delivered: SharedBlock  # of each worker: how often it has filled a slot, int64
    slots: Slots
    index: int
    incarnation: int

    def run(self, connection: Connection) -> None:
        recorded = self.recording.rows[0, 0]
        delivered = self.delivered.bytes.view(np.int64)
        while True:
            slot = receive_order(connection)
            assert isinstance(slot, int), "nobody saves such a run, or goes on with one"
            self.slots.rows[self.index, slot] = recorded
            delivered[self.index] += 1
            send_filled(connection, slot)
