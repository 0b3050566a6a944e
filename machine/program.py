"""The start and the end of a program: its output streams, its exit code, no traceback for what a user has done."""

import os
import select
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn, TextIO

from options.command_line import HelpRequested, show_help
from options.rules import Options, UsageError

CHECKOUT = Path(__file__).resolve().parents[1]
USAGE_ERROR = 2
INTERRUPTED = 130  # the exit code of a program that CTRL+C has ended, as shells give it
NO_READER = 141  # and of one whose output nobody reads any more, as with `| head`

Main = Callable[[Sequence[str]], int | None]


def run_program(main: Main) -> NoReturn:
    """Call main with this process's arguments, and exit at once with the code that it returns.

    Python's own exit takes a second, in which a signal could change the exit code.
    """
    prepare_streams()
    code = _exit_code(main)
    with suppress(OSError):  # nobody reads the output any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def run_command(main: Main, usage: str, *topics: type[Options]) -> NoReturn:
    """The same for the small programs beside main.py, such as `python -m reports.plot`, with their help."""
    prepare_streams()
    code = _exit_code(lambda words: explained(lambda: main(words), usage, topics))
    sys.exit(code)


def explained(main: Callable[[], int | None], usage: str, topics: Sequence[type[Options]], name: str = "") -> int:
    """The exit code of main. --help prints the usage and the options; a user's mistake is one sentence on stderr."""
    try:
        return main() or 0
    except HelpRequested as wanted:
        show_help(usage, topics, str(wanted))
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except UsageError as error:
        print(end=error.details, file=sys.stderr)
        print(f"{name}: {error}" if name else error, file=sys.stderr)
    except PermissionError as error:
        if error.filename is None:
            raise
        print(f"{error.filename} may not be read or written by this user.", file=sys.stderr)
    return USAGE_ERROR


def _exit_code(main: Main) -> int:
    try:
        code = main(sys.argv[1:]) or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        if not _discard_output_without_reader():
            raise  # another connection of the program has broken
        return NO_READER


def _discard_output_without_reader() -> bool:
    """Send what nobody reads to /dev/null, so that Python's exit can write the rest. Returns whether there was any."""
    streams = [stream for stream in (sys.stdout, sys.stderr) if _is_without_reader(stream)]
    for stream in streams:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), stream.fileno())
    return bool(streams)


def _is_without_reader(stream: TextIO) -> bool:
    with suppress(OSError):  # it has no file
        poll = select.poll()
        poll.register(stream.fileno(), select.POLLOUT)
        # Linux says POLLERR, macOS POLLHUP.
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    return False


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
