"""Why a run or a test cannot go on, in a sentence for its user."""


class RunFailedError(Exception):
    """Ends the program with exit code 1."""


class WorkersFailedError(RunFailedError):
    """Processes that end again and again, or cannot be started; says which and how."""


def no_room(name: str, error: OSError) -> WorkersFailedError:
    """The system refuses to start a process that is needed."""
    return WorkersFailedError(
        f"{name} could not be started ({error.strerror}); a smaller --worker_count would be right."
    )
