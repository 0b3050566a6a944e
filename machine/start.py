"""The first thing that a program does: from then on, a signal ends it with a sentence while it starts.

Only what Python has loaded already is imported at the top: before the handlers are set, CTRL+C would give a traceback.
"""

import os
import sys


def exit_on_signals() -> None:
    """End at CTRL+C, SIGTERM and a closed terminal: there is nothing to clean up or to save yet.

    SIGUSR1 (save now) has no effect. Under nohup, the terminal may be closed.
    """
    sys.excepthook = _without_traceback  # for CTRL+C during the import below
    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end_at_start)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    sys.excepthook = sys.__excepthook__


def stopped_at_start(number: int = 2) -> int:
    """Say that a signal (2: CTRL+C) came before the program began its work; return the exit code, as shells give it."""
    try:
        os.write(2, b"\nstopped while it started; nothing was saved\n")
    except OSError:
        pass  # nobody reads the errors
    return 128 + number


def end_at_start(number: int, frame: object) -> None:
    os._exit(stopped_at_start(number))


def _without_traceback(kind: type[BaseException], error: BaseException, traceback: object) -> None:
    if kind is KeyboardInterrupt:
        os._exit(stopped_at_start())
    sys.__excepthook__(kind, error, error.__traceback__)
