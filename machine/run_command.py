"""Runs the small programs beside main.py, such as `python -m reports.plot`."""

import os
import select
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn, TextIO

from machine.program import prepare_streams
from options.command_line import HelpRequested
from options.help_text import show_help
from options.rules import Options, UsageError

INTERRUPTED = 130  # the exit code of a program that CTRL+C has ended, as shells give it
NO_READER = 141  # and of one whose output nobody reads any more, as with `| head`


def run_command(main: Callable[[Sequence[str]], None], usage: str, *topics: type[Options]) -> NoReturn:
    """Call main with this process's arguments, and exit.

    --help prints the usage and the options. A UsageError becomes one sentence on stderr and exit code 2. CTRL+C, and a
    reader of the output who has seen enough, end it without a traceback.
    """
    prepare_streams()
    try:
        code = _exit_code(main, usage, topics)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _discard_output_without_reader():
            raise  # another connection of the program has broken
        code = NO_READER
    sys.exit(code)


def _exit_code(main: Callable[[Sequence[str]], None], usage: str, topics: Sequence[type[Options]]) -> int:
    try:
        main(sys.argv[1:])
    except HelpRequested:
        show_help(usage, topics)
    except UsageError as error:
        print(end=error.details, file=sys.stderr)
        print(error, file=sys.stderr)
        return 2
    except PermissionError as error:
        if error.filename is None:
            raise
        print(f"{error.filename} may not be read or written by this user.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _discard_output_without_reader() -> bool:
    """Send stdout and stderr to /dev/null where nobody reads them, so that Python's exit can write what is left.

    Returns whether there is such a stream.
    """
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
