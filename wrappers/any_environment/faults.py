"""Errors in code of the user: an environment, a wrapper, a network. Each is one sentence, with the traceback once."""

import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO, cast

from options.rules import UsageError, printable


class EnvironmentFaultError(Exception):
    """An environment raised an exception, or returned what its spaces do not allow.

    The message is one sentence that names the environment and the step. An exception of the environment's own code is
    the `__cause__`.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence))

    @property
    def report(self) -> str:
        """The traceback of the environment's own code, if it raised an exception, and the sentence."""
        cause = self.__cause__
        if cause is None:
            return f"{self}\n"
        own = cause.__traceback__.tb_next if cause.__traceback__ is not None else None  # without the call of it
        return f"{_lines(traceback.format_exception(type(cause), cause, own))}{self}\n"


class ValueFaultError(Exception):
    """What is wrong with an observation, as the end of a sentence. The environment and the step are added to it."""


class UserCodeError(UsageError):
    """A UsageError because code of the user's raised an exception. `details` is its traceback."""

    def __init__(self, sentence: str, details: str) -> None:
        super().__init__(sentence)
        self.details = details

    @property
    def report(self) -> str:
        """The traceback and the sentence."""
        return f"{self.details}{self}\n"

    def __reduce__(self) -> tuple[type["UserCodeError"], tuple[str, str]]:
        """For Ray, which sends it to another machine: an exception is made again of all of its arguments."""
        return type(self), (str(self), self.details)


FAILURES = (Exception, SystemExit)  # how code of the user's can fail: a script may end itself with sys.exit()


def last_line(error: BaseException) -> str:
    """The exception as the last line of its traceback, without a full stop."""
    return traceback.format_exception_only(error)[-1].strip().rstrip(".")


def traceback_of(error: BaseException) -> str:
    """The whole traceback of an exception."""
    return _lines(traceback.format_exception(error))


def _lines(texts: list[str]) -> str:
    return printable("".join(texts), keep="\n\t")


@contextmanager
def users_code() -> Iterator[None]:
    """Around code of the user's that runs in the main process: the current folder stays, and so does the terminal.

    The code may change the folder, and print what a terminal would obey.
    """
    folder = current_folder()
    try:
        out, errors = (cast(TextIO, _Printable(stream)) for stream in (sys.stdout, sys.stderr))
        with redirect_stdout(out), redirect_stderr(errors):
            yield
    finally:
        return_to(folder)


def current_folder() -> str:
    """Empty if it was removed: then nothing can return to it."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def return_to(folder: str) -> None:
    """Make this the current folder again, unless it was removed."""
    try:  # noqa: SIM105  # faster than `suppress`, and each reset comes here
        os.chdir(folder)
    except OSError:
        pass


class _Printable:
    """Another stream, to which control characters are written as escapes."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream or io.StringIO()

    def write(self, text: str) -> int:
        return self._stream.write(printable(text, keep="\n\t\r"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
