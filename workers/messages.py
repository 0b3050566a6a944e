"""What processes say to each other through their pipes: a letter and an index, or an error's traceback.

These are short enough to be written whole or not at all, so a process killed while sending leaves no half of one.
Snapshots, games to be shown and results are longer; whoever receives them sees that their sender is gone.
"""

import pickle
import struct
from multiprocessing.connection import Connection
from typing import Any

_SLOT = struct.Struct("<cI")
_ANSWER = struct.Struct("<cIq")
_FILLED, _FREE, _ERROR, _SNAPSHOT, _GAME, _RESULT = b"F", b"E", b"!", b"S", b"G", b"R"
_QUESTION, _ANSWERED, _WORKER, _ALIVE = b"Q", b"A", b"W", b"L"
_LONGEST_TRACEBACK = 12_000  # bytes; connections write up to 16 KiB in one piece


class WorkerError(Exception):
    """An exception in a worker, with its traceback as text."""


def send_filled(connection: Connection, slot: int) -> None:
    """Worker → learner: the slot holds whole unrolls."""
    connection.send_bytes(_SLOT.pack(_FILLED, slot))


def send_free(connection: Connection, slot: int) -> None:
    """Learner → worker: the slot may be written."""
    connection.send_bytes(_SLOT.pack(_FREE, slot))


def send_error(connection: Connection, traceback_text: str) -> None:
    """Worker → learner: the worker ends, and this is why."""
    connection.send_bytes(_ERROR + traceback_text.encode()[-_LONGEST_TRACEBACK:])


def send_snapshot_request(connection: Connection) -> None:
    """Learner → worker: send your snapshot; only to one that waits for a slot."""
    connection.send_bytes(_SNAPSHOT)


def send_snapshot(connection: Connection, snapshot: dict[str, Any]) -> None:
    """Worker → learner: all that the worker needs to go on elsewhere, in plain values. Learner → worker: go on there.

    It is too long for what a process is started with: the learner would wait for ever for one that dies while it
    starts. Through the pipe, it hears of that.
    """
    connection.send_bytes(_SNAPSHOT + pickle.dumps(snapshot))


def receive_snapshot(connection: Connection) -> dict[str, Any]:
    """The answer to `send_snapshot_request`; WorkerError or EOFError like `receive_slot`."""
    snapshot: dict[str, Any] = pickle.loads(_receive(connection)[1:])
    return snapshot


def receive_slot(connection: Connection) -> int | None:
    """The slot that a worker has filled; None for a snapshot that came too late.

    WorkerError if the worker failed, EOFError when it is gone.
    """
    message = _receive(connection)
    return None if message[:1] == _SNAPSHOT else _slot(message)


def receive_order(connection: Connection) -> int | dict[str, Any] | None:
    """What a worker is to do next: the slot to fill, a snapshot to go on from, or None: send one.

    EOFError when the learner is gone.
    """
    message = _receive(connection)
    if message == _SNAPSHOT:
        return None
    if message[:1] == _SNAPSHOT:
        snapshot: dict[str, Any] = pickle.loads(message[1:])
        return snapshot
    return _slot(message)


def send_question(connection: Connection, group: int) -> None:
    """Worker → inference server: the rows of this group hold questions."""
    connection.send_bytes(_SLOT.pack(_QUESTION, group))


def receive_question(connection: Connection) -> int:
    """The group of the next message; EOFError when the worker is gone."""
    group: int = _SLOT.unpack(_receive(connection))[1]
    return group


def send_answer(connection: Connection, group: int, weight_version: int) -> None:
    """Inference server → worker: the rows of this group hold answers, by these weights."""
    connection.send_bytes(_ANSWER.pack(_ANSWERED, group, weight_version))


def receive_answer(connection: Connection) -> tuple[int, int]:
    """The group and the weight version of the next message; EOFError when the server is gone."""
    _, group, weight_version = _ANSWER.unpack(_receive(connection))
    return group, weight_version


def send_worker(connection: Connection, worker: int) -> None:
    """Learner → inference server: what follows is a pipe to this worker."""
    connection.send_bytes(_SLOT.pack(_WORKER, worker))


def receive_worker(connection: Connection) -> int:
    """The place of the worker; EOFError when the learner is gone."""
    worker: int = _SLOT.unpack(_receive(connection))[1]
    return worker


def send_alive(connection: Connection, at_work: bool) -> None:
    """Inference server → learner: a sign of life, and whether it has answered anything yet."""
    connection.send_bytes(_SLOT.pack(_ALIVE, at_work))


def receive_alive(connection: Connection) -> bool:
    """WorkerError if the server failed, EOFError when it is gone."""
    return bool(_SLOT.unpack(_receive(connection))[1])


def send_game(connection: Connection, game: int) -> None:
    """Parent → player: the number of a game to play."""
    connection.send_bytes(_SLOT.pack(_GAME, game))


def receive_game(connection: Connection) -> int:
    """The number of the next message; EOFError when nobody wants games any more."""
    game: int = _SLOT.unpack(_receive(connection))[1]
    return game


def send_showing(connection: Connection, showing: Any) -> None:
    """Parent → recorder: the game to film. Its log is too long for what a process is started with, which may block."""
    connection.send_bytes(pickle.dumps(showing))


def receive_showing(connection: Connection) -> Any:
    """EOFError when nobody wants the film any more."""
    return pickle.loads(connection.recv_bytes())


def send_result(connection: Connection, result: Any) -> None:
    """Child → parent: what a task gave. It may be long: a child killed while sending is seen to be gone."""
    connection.send_bytes(_RESULT + pickle.dumps(result))


def receive_result(connection: Connection) -> Any:
    """WorkerError if the child failed, EOFError when it is gone."""
    return pickle.loads(_receive(connection)[1:])


def _slot(message: bytes) -> int:
    slot: int = _SLOT.unpack(message)[1]
    return slot


def _receive(connection: Connection) -> bytes:
    message = connection.recv_bytes()
    if message[:1] == _ERROR:
        raise WorkerError(message[1:].decode(errors="replace"))
    return message
