"""Errors in code of the user: an environment, a wrapper, a network. Each is one sentence, with the traceback once."""

import traceback

from options.rules import UsageError


class EnvironmentFaultError(Exception):
    """An environment raised an exception, or returned what its spaces do not allow.

    The message is one sentence that names the environment and the step. An exception of the environment's own code is
    the `__cause__`.
    """

    @property
    def report(self) -> str:
        """The traceback of the environment's own code, if it raised an exception, and the sentence."""
        cause = self.__cause__
        if cause is None:
            return f"{self}\n"
        own = cause.__traceback__.tb_next if cause.__traceback__ is not None else None  # without the call of it
        return "".join([*traceback.format_exception(type(cause), cause, own), f"{self}\n"])


class ValueFaultError(Exception):
    """What is wrong with an observation, as the end of a sentence. The environment and the step are added to it."""


class NoAnswerError(BaseException):
    """Raised in the middle of code that takes too long. No exception that environments would expect and handle."""


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
