"""Exceptions in the user's own code: shown as one sentence, and their traceback once."""

import traceback

from options.rules import UsageError


class UserCodeError(UsageError):
    """A UsageError because code of the user's raised an exception. `details` is its traceback."""

    def __init__(self, sentence: str, details: str) -> None:
        super().__init__(sentence)
        self.details = details

    def __reduce__(self) -> tuple[type["UserCodeError"], tuple[str, str]]:
        """For Ray, which sends it to another machine: an exception is made again of all of its arguments."""
        return type(self), (str(self), self.details)


FAILURES = (Exception, SystemExit)  # how code of the user's can fail: a script may end itself with sys.exit()


def last_line(error: BaseException) -> str:
    """The exception as the last line of its traceback, without a full stop."""
    return traceback.format_exception_only(error)[-1].strip().rstrip(".")


def traceback_of(error: BaseException) -> str:
    """The whole traceback of an exception."""
    return "".join(traceback.format_exception(error))


def is_missing(error: ModuleNotFoundError, module: str) -> bool:
    """Whether the module itself, or a package that it is in, does not exist."""
    return error.name is not None and f"{module}.".startswith(f"{error.name}.")
