"""Runs the small programs beside main.py, such as `python -m reports.plot`."""

import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from machine.program import prepare_streams
from options.command_line import HelpRequested
from options.help_text import show_help
from options.rules import Options, UsageError

INTERRUPTED = 130  # the exit code of a program that CTRL+C has ended, as shells give it


def run_command(main: Callable[[Sequence[str]], None], usage: str, *topics: type[Options]) -> NoReturn:
    """Call main with this process's arguments, and exit.

    --help prints the usage and the options. A UsageError becomes one sentence on stderr and exit code 2. CTRL+C ends
    it without a traceback.
    """
    prepare_streams()
    try:
        main(sys.argv[1:])
    except HelpRequested:
        show_help(usage, topics)
    except UsageError as error:
        print(end=error.details, file=sys.stderr)
        print(error, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0)
