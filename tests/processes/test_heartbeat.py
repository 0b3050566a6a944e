"""Signs of life of a worker."""

import time
from contextlib import closing
from multiprocessing import Pipe

import pytest

from processes.inside import HEARTBEAT_SECONDS, Heartbeat
from processes.messages import Kind, receive


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
