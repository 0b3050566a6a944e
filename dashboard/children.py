"""The process of a live game, as a page sees it. Nothing here needs torch, which only the process loads."""

import threading
from pathlib import Path
from typing import NamedTuple

from dashboard.results import PageError
from processes.child import Call, start_child
from processes.messages import ChildError, Kind, receive
from processes.printed import reason

MOST_AT_ONCE = 4

_running: set["LiveGame"] = set()


class LivePicture(NamedTuple):
    """What the page shows of one moment of a live game. Pictures are PNG files."""

    screen: bytes
    seen: bytes | None  # the newest frame of the observation, if it has any
    stack: bytes | None  # all frames of the observation side by side, the oldest first
    salient: bytes | None  # with an alpha channel, to lay over `seen`
    vector: tuple[float, ...]  # the numbers of the observation
    actions: tuple[str, ...]  # the names of the bars: one for each choice, or for each real-valued action
    bars: tuple[float, ...]  # from 0 to 1: probabilities of choices, and where the means of real numbers are in −1 to 1
    choices: int  # how many bars are probabilities; they come first
    chosen: tuple[int, ...]  # the bars of the action
    values: tuple[tuple[float, float], ...]  # seconds of play and value estimate, since the picture before
    score: float
    steps: int  # of this game
    scores: tuple[float, ...]  # of the finished games, the newest last
    checkpoint: str
    agent_steps: int  # of the checkpoint


class LiveGame:
    """A process in which `play_live` plays, until `close`, or until the dashboard ends in any way."""

    def __init__(self, folder: Path, root: Path, chosen: str | None) -> None:
        """Start it. Raises PageError if there are too many, or if the system refuses."""
        if len(_running) >= MOST_AT_ONCE:
            raise PageError(f"{MOST_AT_ONCE} agents play on other pages; close one of those first.")
        try:
            self._child = start_child(Call("dashboard.live_game", "play_live", (folder, root, chosen)), "live game")
        except OSError as error:
            raise PageError(f"The process of the live game could not be started ({error.strerror}).") from None
        _running.add(self)

    def show_saliency(self, wanted: bool) -> None:
        self._child.send(Kind.SALIENCY, int(wanted))

    def new_pictures(self) -> list[LivePicture]:
        """Those that have come since the last call. Raises PageError if the process has failed or ended."""
        pictures = []
        try:
            self._child.printed.limit()
            while self._child.connection.poll():
                pictures.append(receive(self._child.connection).payload)
        except ChildError as error:
            raise PageError(f"The live game failed: {reason(str(error)) or 'see the terminal'}.") from None
        except (EOFError, OSError):
            if not pictures:
                raise PageError("The process of the live game has ended.") from None
        if pictures and isinstance(pictures[-1], str):  # why it has ended
            raise PageError(pictures[-1])
        return pictures

    def close(self) -> None:
        """In a thread of its own: the pages of all visitors wait for what takes long here."""
        if self in _running:
            _running.discard(self)
            threading.Thread(target=self._child.end).start()
