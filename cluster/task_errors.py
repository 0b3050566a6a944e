"""What errors of Ray, and of code on its nodes, say in one line. Imported only with --cluster."""

from ray.exceptions import RayTaskError

from processes.failures import WorkersFailedError


def one_line(error: RayTaskError) -> str:
    """The last line of the node's own error, after its traceback; of workers that failed too often, the first one.

    The last line of these is about a whole run, which goes on here.
    """
    cause = getattr(error, "cause", None) or error
    return _lines(cause)[0 if isinstance(cause, WorkersFailedError) else -1]


def first_line(error: BaseException) -> str:
    """What an error of Ray's says, in one line."""
    return _lines(error)[0]


def _lines(error: BaseException) -> list[str]:
    return str(error).strip().splitlines() or [type(error).__name__]
