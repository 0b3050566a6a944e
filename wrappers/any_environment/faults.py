"""Errors in code of the user: an environment, a wrapper, a network. Each is one sentence, with the traceback once."""

import traceback

from options.rules import printable

FAILURES = (Exception, SystemExit)  # how code of the user's can fail: a script may end itself with sys.exit()


class EnvironmentFaultError(Exception):
    """An environment raised an exception, or returned what its spaces do not allow.

    The message is one sentence that names the environment and the step. An exception of the environment's own code is
    the `__cause__`.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence))

    @property
    def report(self) -> str:
        """The traceback of the environment's own code, if it raised an exception, and the sentence."""
        cause = self.__cause__
        if cause is None:
            return f"{self}\n"
        own = cause.__traceback__.tb_next if cause.__traceback__ is not None else None  # without the call of it
        return f"{traceback_of(cause.with_traceback(own))}{self}\n"


class ValueFaultError(Exception):
    """What is wrong with an observation, as the end of a sentence. The environment and the step are added to it."""


def last_line(error: BaseException) -> str:
    """The exception as the last line of its traceback, without a full stop."""
    return traceback.format_exception_only(error)[-1].strip().rstrip(".")


def traceback_of(error: BaseException) -> str:
    """The whole traceback of an exception."""
    return printable("".join(traceback.format_exception(error)), keep="\n\t")
