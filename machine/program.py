"""The start and the end of a program: its exit code, no traceback for what a user has done, its own command."""

import os
import select
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

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
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever has started this program
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  # for as long as the program runs
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a question mark for a character that the terminal lacks
    try:
        code = main(sys.argv[1:]) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        if _has_reader():
            raise  # another connection of the program has broken
        code = NO_READER
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def run_command(main: Main, usage: str, *topics: type[Options]) -> NoReturn:
    """The same for the small programs beside main.py, such as `python -m reports.plot`, with their help."""
    run_program(lambda words: explained(lambda: main(words), usage, topics))


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


def _has_reader() -> bool:
    """Whether anybody reads the output. Nothing is asked for: errors are told in any case."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return not poll.poll(0)


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
