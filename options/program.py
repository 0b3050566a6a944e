"""Small commands beside main.py: words and switches, and mistakes that end in one sentence."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from options.rules import UsageError


def open_closed_streams() -> None:
    """Output that was closed by whoever started this leads nowhere, and whoever writes need not know."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # for as long as this runs


def end(code: int) -> NoReturn:
    """End this process at once: nothing is left to clean up, and Python would take a second over it, in which a signal
    could change the exit code.
    """
    with suppress(OSError):  # nobody listens any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


class CommandLine(argparse.ArgumentParser):
    """argparse, with a mistake as one sentence and without abbreviations."""

    def __init__(self, program: str, description: str) -> None:
        super().__init__(prog=program, description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; --help tells more.")


def run(command: Callable[[Sequence[str]], None]) -> int:
    """Runs it on this process's arguments; returns the exit code."""
    open_closed_streams()
    try:
        command(sys.argv[1:])
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
