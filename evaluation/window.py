"""A window that shows pictures at the frame rate of a game. It needs a display and a Python with tkinter."""

import os
import sys
import time
from fractions import Fraction
from types import ModuleType

from evaluation.film import HEIGHT, WIDTH, Picture


class WindowClosedError(Exception):
    """The user closed the window."""


def open_window(title: str) -> "Window | str":
    """Open a window. If that fails, return the reason."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "there is no display"
    try:
        import tkinter  # noqa: PLC0415  # not part of every Python
    except ImportError:
        return "this Python has no tkinter"
    try:
        return Window(tkinter, title)
    except tkinter.TclError as error:
        return f"no window can be opened ({error})"


class Window:
    def __init__(self, tkinter: ModuleType, title: str) -> None:
        self._tkinter = tkinter
        self._root = tkinter.Tk()
        self._root.title(title)
        self._root.resizable(False, False)
        self._root.protocol("WM_DELETE_WINDOW", self._close)
        self._image = tkinter.PhotoImage(width=WIDTH, height=HEIGHT)
        tkinter.Label(self._root, image=self._image, borderwidth=0).pack()
        self._open = True
        self._next = 0.0

    def show(self, picture: Picture, frames_per_second: Fraction) -> None:
        """Wait until it is time for the next frame, then show the picture `[HEIGHT, WIDTH, 3]`.

        Raises WindowClosedError if the window is closed.
        """
        now = time.monotonic()
        if self._next > now:
            time.sleep(self._next - now)
        self._next = max(self._next, now) + float(1 / frames_per_second)
        try:
            self._image.configure(data=b"P6 %d %d 255\n" % (WIDTH, HEIGHT) + picture.tobytes())
            self._root.update()
        except self._tkinter.TclError:
            self._open = False
        if not self._open:
            raise WindowClosedError

    def close(self) -> None:
        if self._open:
            self._close()

    def _close(self) -> None:
        self._open = False
        self._root.destroy()
