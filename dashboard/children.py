"""The child processes of all pages, and what they answer. Nothing here needs torch, which only they load."""

import threading
from typing import Any, NamedTuple

from dashboard.results import PageError
from processes.child import Call, start_child
from processes.messages import ChildError, Kind, receive
from processes.printed import reason

MOST_AT_ONCE = 4  # while one starts, it keeps one of the threads that all pages share

_running: set["PageChild"] = set()


class LivePicture(NamedTuple):
    """What the page shows of one moment of a live game. Pictures are PNG files."""

    screen: bytes
    seen: bytes | None  # the newest frame of the observation, if it has any
    stack: bytes | None  # all frames of the observation side by side, the oldest first
    salient: bytes | None  # with an alpha channel, to lay over `seen`
    vector: tuple[float, ...]  # the numbers of the observation
    actions: tuple[str, ...]  # the names of the bars: one for each choice, or for each real-valued action
    probabilities: tuple[float, ...]  # from 0 to 1; for real-valued actions, where they are within their bounds
    chosen: tuple[int, ...]  # the bars of the action
    values: tuple[tuple[float, float], ...]  # seconds of play and value estimate, since the picture before
    score: float
    steps: int  # of this game
    scores: tuple[float, ...]  # of the finished games, the newest last
    checkpoint: str
    agent_steps: int  # of the checkpoint


class PageChild:
    """One process, until `close`."""

    def __init__(self, call: Call, name: str) -> None:
        """Start it. Raises PageError if there are too many, or if the system refuses."""
        if len(_running) >= MOST_AT_ONCE:
            raise PageError(f"{MOST_AT_ONCE} agents or maps are open on other pages; close one of those first.")
        self._name = name
        try:
            self._child = start_child(call, name)
        except OSError as error:
            raise PageError(f"The process of the {name} could not be started ({error.strerror}).") from None
        self._asking = threading.Lock()
        self._is_open = True
        _running.add(self)

    @property
    def pid(self) -> int:
        return self._child.pid

    def ask(self, seconds: float, index: int = 0) -> Any:
        """Its answer, for which this waits. Raises PageError if there is none, or if it is a sentence."""
        with self._asking:
            if not self._is_open:
                raise PageError(f"The {self._name} has ended.")
            try:
                self._child.printed.limit()
                self._child.send(Kind.PICTURE_REQUEST, index)
                if not self._child.connection.poll(seconds):
                    raise PageError(f"The process of the {self._name} does not answer.")
                answer = receive(self._child.connection).payload
            except ChildError as error:
                raise PageError(f"The {self._name} failed: {reason(str(error)) or 'see the terminal'}.") from None
            except (EOFError, OSError):
                raise PageError(f"The process of the {self._name} has ended.") from None
        if isinstance(answer, str):
            raise PageError(answer)
        return answer

    def kill(self) -> None:
        """Whoever waits for an answer gets a PageError."""
        if self._is_open:  # afterwards, another process may have its number
            self._child.kill()

    def close(self) -> None:
        self.kill()
        with self._asking:
            if self._is_open:
                self._is_open = False
                _running.discard(self)
                self._child.end()


def kill_all() -> None:
    """At the end of the server, which would wait for the threads otherwise."""
    for child in list(_running):
        child.kill()
