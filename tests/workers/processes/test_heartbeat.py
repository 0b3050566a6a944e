"""Signs of life of a worker."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from workers.processes.heartbeat import HEARTBEAT_SECONDS, Heartbeat


def test_one_is_sent_each_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    alive = Heartbeat(cast(Any, SimpleNamespace(send_bytes=sent.append)))
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for now in (100.0, 100.5, 100.9, 100.0 + HEARTBEAT_SECONDS, 101.5, 107.0):  # noqa: B007
        alive()
    monkeypatch.undo()
    assert len(sent) == 3
