"""Errors of an environment while it is played."""

import traceback


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
