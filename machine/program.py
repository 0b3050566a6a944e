"""The start and the end of main.py and multi_train.py: early signals, output streams, a quick exit.

It imports nothing slow, because they import it before they handle signals.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from types import FrameType

CHECKOUT = Path(__file__).resolve().parents[1]


def exit_on_signals() -> None:
    """While a program starts, CTRL+C and SIGTERM end it without a traceback: there is nothing to clean up yet.

    SIGUSR1 (save now) has no effect, since there is nothing to save.
    """
    signal.signal(signal.SIGINT, _exit)
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def _exit(number: int, frame: FrameType | None) -> None:
    os._exit(0)


def run_program(main: Callable[[Sequence[str]], int]) -> None:
    """Call main with this process's arguments, and exit with the code that it returns."""
    prepare_streams()
    code = main(sys.argv[1:])
    with suppress(OSError):  # nobody reads the output any more
        sys.stdout.flush()
        sys.stderr.flush()
    # At once: Python's own exit takes a second, in which a signal could change the exit code.
    os._exit(code)


def prepare_streams() -> None:
    """Let print always work, where a stream was closed before the start and where it lacks a character.

    A closed stream becomes /dev/null; in the place of stdin, the first pipe of the program would be taken for it. A
    character that stdout cannot encode is printed as a question mark.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # open until the process ends
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def command_of(program: str) -> list[str]:
    """The words that start a program of the top folder, such as main.py, from the current folder."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # the folder was deleted during the run
        return [sys.executable, str(CHECKOUT / program)]
    return [_interpreter(here), program if here == CHECKOUT else str(CHECKOUT / program)]


def _interpreter(here: Path) -> str:
    """`python`, if the shell starts this one by that name: it does where the virtual environment is activated."""
    own = Path(sys.executable)
    named = shutil.which("python")
    if named is not None and Path(named).parent.resolve() == own.parent.resolve():
        return "python"
    return str(own.relative_to(here)) if own.is_relative_to(here) else str(own)
