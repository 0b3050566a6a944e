"""Errors of an environment while it is played."""


class EnvironmentFaultError(Exception):
    """An environment raised an exception, or returned what its spaces do not allow.

    The message is one sentence that names the environment and the step. An exception of the environment's own code is
    the `__cause__`.
    """


class ValueFaultError(Exception):
    """What is wrong with an observation, as the end of a sentence. The environment and the step are added to it."""
