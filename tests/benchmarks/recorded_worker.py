"""A worker without environments: it writes the same recorded unrolls again and again, as fast as it gets slots.

It loads no torch, so 64 such processes start in seconds.
"""

from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from processes.messages import Kind, receive, send
from workers.memory.shared_block import SharedBlock
from workers.memory.slots import Slots


@dataclass(frozen=True)
class RecordedWorker:
    recording: Slots  # of one worker, with one slot
    delivered: SharedBlock  # slots that each worker has filled, int64
    slots: Slots
    index: int

    def run(self, connection: Connection) -> None:
        recorded = self.recording.rows[0, 0]
        delivered = self.delivered.bytes.view(np.int64)
        while True:
            message = receive(connection)
            assert message.kind == Kind.SLOT_FREE
            self.slots.rows[self.index, message.index] = recorded
            delivered[self.index] += 1
            send(connection, Kind.SLOT_FILLED, message.index)
