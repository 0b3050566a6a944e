"""Signs of life of a worker."""

import time
from contextlib import closing
from multiprocessing import Pipe

import pytest

from processes.inside import HEARTBEAT_SECONDS, Heartbeat, beat
from processes.messages import Kind, receive, send


def test_one_is_sent_each_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, child = Pipe()
    alive = Heartbeat(child)
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for now in (100.0, 100.5, 100.9, 100.0 + HEARTBEAT_SECONDS, 101.5, 107.0):  # noqa: B007
        alive()
    monkeypatch.undo()
    child.close()
    assert [receive(parent).kind for _ in range(3)] == [Kind.HEARTBEAT] * 3
    with closing(parent), pytest.raises(EOFError):
        receive(parent)


def test_a_parent_that_reads_nothing_stops_nobody() -> None:
    """As after CTRL+Z, for ten hours."""
    parent, child = Pipe()
    with closing(parent), closing(child):
        for _ in range(36_000):
            beat(child)
        for slot in range(10):
            send(child, Kind.SLOT_FILLED, slot)  # there is still room for what cannot be left out
        while (message := receive(parent)).kind == Kind.HEARTBEAT:
            pass
        assert (message.kind, message.index) == (Kind.SLOT_FILLED, 0)
        while parent.poll():
            receive(parent)
        beat(child)
        assert receive(parent).kind == Kind.HEARTBEAT
