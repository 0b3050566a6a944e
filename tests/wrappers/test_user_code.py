"""Errors of the user's code."""

import pickle

from wrappers.any_environment.faults import UserCodeError


def test_an_error_travels_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(UserCodeError("--network=a:b failed.", "Traceback\n  of a\n")))
    assert isinstance(error, UserCodeError)
    assert (str(error), error.details) == ("--network=a:b failed.", "Traceback\n  of a\n")
