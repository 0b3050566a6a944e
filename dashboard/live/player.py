"""The page's side of a live game: it starts the process, asks for pictures and ends it."""

import secrets
import threading
from pathlib import Path

from dashboard import children
from dashboard.live.picture import LivePicture
from processes.child import Child
from processes.messages import ChildError, Kind, receive
from processes.printed import reason

START_SECONDS = 120.0  # longest wait for the first picture: torch has to be loaded at the lowest priority
MOST_AT_ONCE = 4

_running: set["LivePlayer"] = set()
_running_lock = threading.Lock()  # pages start and end games in threads


class LiveGameEndedError(Exception):
    """There are no more pictures. The message is a sentence for the page."""


class LivePlayer:
    """One process with one game. Its methods wait, so call them in a thread; they can be called from several."""

    def __init__(self, folder: Path, root: Path, chosen: str | None) -> None:
        """Start the game of the checkpoint `chosen`, or of the newest one, of a run in the results folder `root`."""
        # Only now: torch takes seconds to load, and most pages never show a game.
        from dashboard.live.game import LiveGame  # noqa: PLC0415
        from wrappers.make_environment import make_environment  # noqa: PLC0415

        self._child: Child
        self._lock = threading.Lock()  # held while a picture is asked for
        seed = secrets.randbelow(2**31)
        game = LiveGame(make_environment=make_environment, folder=folder, root=root, chosen=chosen, seed=seed)
        with _running_lock:
            for player in list(_running):
                if player._child.has_ended:
                    player._end()
            if len(_running) >= MOST_AT_ONCE:
                raise LiveGameEndedError(f"{MOST_AT_ONCE} agents are playing on other pages; close one of those first.")
            try:
                self._child = children.begin(game, "live game")
            except OSError as error:
                raise LiveGameEndedError(f"The process of the game could not be started ({error.strerror}).") from None
            self._open = True
            _running.add(self)

    @property
    def process_id(self) -> int | None:
        return self._child.pid if self._open else None

    def picture(self, with_saliency: bool) -> LivePicture:
        """The game as it is now. Raises LiveGameEndedError if there is no game any more."""
        with self._lock:
            if not self._open:
                raise LiveGameEndedError("The game has ended.")
            try:
                self._child.printed.limit()
                self._child.send(Kind.PICTURE_REQUEST, int(with_saliency))
                if not self._child.connection.poll(START_SECONDS):
                    raise LiveGameEndedError("The process of the game does not answer.")
                answer = receive(self._child.connection).payload
            except ChildError as error:
                raise LiveGameEndedError(f"The game failed: {reason(str(error)) or 'see the terminal'}.") from None
            except (EOFError, OSError):
                raise LiveGameEndedError("The process of the game has ended.") from None
        if isinstance(answer, str):
            raise LiveGameEndedError(answer)
        assert isinstance(answer, LivePicture)
        return answer

    def close(self) -> None:
        """End the process, also while a picture is asked for."""
        with _running_lock:
            self._end()

    def _end(self) -> None:
        if not self._open:
            return
        self._child.kill()  # now a `picture` that waits for an answer gives up the lock
        with self._lock:
            self._open = False
            _running.discard(self)
            children.end(self._child)
