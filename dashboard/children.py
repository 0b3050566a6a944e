"""The child processes of all pages. Pages start and end them in threads, which wait for their answers."""

import threading
from typing import Any

from processes.child import Child, start_child

_running: set[Child] = set()
_lock = threading.Lock()


def begin(work: Any, name: str) -> Child:
    """Start a child; OSError if the system refuses it."""
    child = start_child(work, name)
    with _lock:
        _running.add(child)
    return child


def end(child: Child) -> None:
    with _lock:
        _running.discard(child)
    child.end()


def kill_all() -> None:
    """At the end of the server, which would wait for the threads otherwise."""
    with _lock:
        for child in _running:
            child.kill()
