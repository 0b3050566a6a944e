"""A worker without environments: it writes the same recorded unrolls again and again, as fast as it gets slots.

It loads no torch, so 64 such processes start in seconds.
"""

from dataclasses import dataclass
from multiprocessing.connection import Connection

from processes.messages import Kind, receive, send
from workers.shared_array import SharedArray


@dataclass(frozen=True)
class RecordedWorker:
    recording: SharedArray  # [environment, nbytes]
    delivered: SharedArray  # slots that each worker has filled
    slots: SharedArray  # [worker, slot, environment, nbytes]
    index: int

    def run(self, connection: Connection) -> None:
        while True:
            message = receive(connection)
            assert message.kind == Kind.SLOT_FREE
            self.slots.array[self.index, message.index] = self.recording.array
            self.delivered.array[self.index] += 1
            send(connection, Kind.SLOT_FILLED, message.index)
