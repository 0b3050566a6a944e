"""Messages between processes: a kind, an index, and for some kinds a payload.

A message of up to 16 KiB is written whole or not at all, so a process that is killed while it sends leaves no half
message. Only snapshots, games, results, pictures, and rounds and figures of nodes can be longer; their receiver gets
EOFError if the sender is killed. Nothing is pickled for a message without a payload.
"""

import pickle
import struct
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing.connection import Connection
from typing import Any

from processes.printed import plain_text

_HEADER = struct.Struct("<BI")
_LONGEST_TRACEBACK = 12_000  # bytes; connections write up to 16 KiB in one piece


class Kind(IntEnum):
    """What a message means, who sends it to whom, and what its index and payload are."""

    SLOT_FREE = 1  # learner → worker: fill the slot `index`
    SLOT_FILLED = 2  # worker → learner: the slot `index` holds whole unrolls
    SNAPSHOT_REQUEST = 3  # learner → worker that waits for a slot: send a snapshot
    SNAPSHOT = 4  # worker → learner: its state. Payload: plain values
    ACTION_REQUEST = 5  # worker → inference server: the rows of a group hold requests; see `RemotePolicy` for `index`
    ACTION_RESULT = 6  # inference server → worker: the rows of this group hold results
    HEARTBEAT = 7  # child → parent: it runs; from the inference server, `index` is 1 once it has returned a result
    GAME = 8  # parent → player: play the game `index`; with a payload, make this film of it
    RESULT = 9  # child → parent: the payload is the result of a task; from a player, that of the game `index`
    ERROR = 10  # child → parent: the child ends because of an exception; the payload is its traceback
    SALIENCY = 11  # parent → live game: `index` is 1 for pictures with saliency
    PICTURE = 12  # live game → parent: the payload is the picture, or a sentence that says why there is none
    ROUNDS_WANTED = 13  # learner → gateway of a cluster: so many rounds in all may have been asked of other nodes
    ROUND = 14  # gateway → learner: the payload is the name of a node, and compressed unrolls
    NODE_FIGURES = 15  # gateway → learner: the payload is the figures of nodes
    NOTICE = 16  # gateway → learner: the payload is a sentence for the console
    FAILED_RESETS = 17  # worker → learner: `index` resets failed and were tried again; the payload says how the latest


@dataclass(slots=True)
class Message:
    kind: Kind
    index: int
    payload: Any = None


class ChildError(Exception):
    """An exception in a child process, with its traceback as text."""


def send(connection: Connection, kind: Kind, index: int = 0, payload: Any = None) -> None:
    """Send one message. A long payload blocks until the receiver reads it."""
    header = _HEADER.pack(kind, index)
    connection.send_bytes(header if payload is None else header + pickle.dumps(payload))


def send_error(connection: Connection, traceback_text: str) -> None:
    """Send the end of a traceback, short enough to be written in one piece."""
    end = traceback_text.encode()[-_LONGEST_TRACEBACK:]
    send(connection, Kind.ERROR, payload=end.decode(errors="replace"))


def receive(connection: Connection) -> Message:
    """Wait for the next message. ChildError if it is an error; EOFError or OSError if the sender is gone."""
    content = connection.recv_bytes()
    kind, index = _HEADER.unpack_from(content)
    payload = pickle.loads(memoryview(content)[_HEADER.size :]) if len(content) > _HEADER.size else None
    if kind == Kind.ERROR:
        raise ChildError(plain_text(str(payload)))
    return Message(Kind(kind), index, payload)
