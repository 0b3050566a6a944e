"""Errors that end a run or a test, each with a sentence for the user."""


class RunFailedError(Exception):
    """Ends the program."""

    exit_code = 1


class WorkersFailedError(RunFailedError):
    """Processes end again and again, or cannot be started. The message names the process and the cause."""


def could_not_start(name: str, error: OSError) -> WorkersFailedError:
    """The error for a process that the system refused to start."""
    return WorkersFailedError(
        f"{name} could not be started ({error.strerror}); a smaller --worker_count would be right."
    )
