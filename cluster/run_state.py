"""What the cluster knows of a run: its state, and the commands to it, in the key-value store of Ray's head.

Nothing more is needed for commands than a connection to the head. An entry has the time of its last change, so that
one sees whether its run is alive.
"""

import json
import time
from threading import Lock
from typing import Any

from ray.experimental import internal_kv

SPACE = b"rl-platform"
COMMANDS = ("save", "stop")
COMMAND_SECONDS = 1.0  # between two looks at the commands
OLD_SECONDS = 24 * 3600.0  # after which the entry of a run that was killed is removed


class RunState:
    """The side of the run: it shows its state, and reads commands."""

    def __init__(self, begun: float) -> None:
        """`begun`: the time at which the run began."""
        self.status: dict[str, str] = {}  # `run`: its name, `line`: its state; empty until they are known
        self._begun = begun
        self._lock = Lock()  # commands are read in another thread than the one that ends the run
        self._ended = False
        self._taken: list[str] = []  # commands that were read and are not returned yet
        self._remove_old()

    def exchange(self, details: list[str]) -> list[str]:
        """Show the newest state, with a line about each part of the run; return the commands since the last call.

        The last one is always `status`: the state is wanted again.
        """
        if not self.status:
            return ["status"]
        name = self.status["run"]
        entry = {"line": self.status["line"], "begun": self._begun, "seen": time.time(), "details": details}
        with self._lock:
            if self._ended:
                return []
            _put(_state_key(name), entry)
            for command in COMMANDS:
                if not is_taken(name, command):
                    self._taken.append(command)  # before it is removed: it must not be lost if that fails
                    _remove(_command_key(name, command))
            given, self._taken = list(dict.fromkeys(self._taken)), []
        return [*given, "status"]

    def remove(self) -> None:
        """The run has ended in good order."""
        with self._lock:
            self._ended = True
            if self.status:
                _remove_run(self.status["run"])

    def _remove_old(self) -> None:
        for name, entry in runs().items():
            if time.time() - entry["seen"] > OLD_SECONDS:
                _remove_run(name)


def runs() -> dict[str, dict[str, Any]]:
    """All runs of the cluster by name, with their state as it was last shown."""
    keys = internal_kv._internal_kv_list(b"state/", namespace=SPACE)
    names = [key.decode().partition("/")[2] for key in keys]
    entries = {name: _get(_state_key(name)) for name in names}
    return {name: entry for name, entry in entries.items() if entry is not None}


def give_command(run: str, command: str) -> None:
    """Leave a command for a run; it reads it within seconds. Each one has its own entry, so none replaces another."""
    _put(_command_key(run, command), {})


def take_back(run: str, command: str) -> None:
    """Remove a command that the run has not read."""
    _remove(_command_key(run, command))


def is_taken(run: str, command: str) -> bool:
    """Whether the run has read the command, or has ended."""
    return _get(_command_key(run, command)) is None


def _state_key(run: str) -> bytes:
    return f"state/{run}".encode()


def _command_key(run: str, command: str) -> bytes:
    return f"command/{command}/{run}".encode()


def _remove_run(run: str) -> None:
    for key in (_state_key(run), *(_command_key(run, command) for command in COMMANDS)):
        _remove(key)


def _remove(key: bytes) -> None:
    internal_kv._internal_kv_del(key, namespace=SPACE)


def _put(key: bytes, entry: dict[str, Any]) -> None:
    internal_kv._internal_kv_put(key, json.dumps(entry).encode(), overwrite=True, namespace=SPACE)


def _get(key: bytes) -> dict[str, Any] | None:
    content = internal_kv._internal_kv_get(key, namespace=SPACE)
    entry: dict[str, Any] | None = None if content is None else json.loads(content)
    return entry
