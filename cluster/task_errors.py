"""What an error says that code on a node has raised. Imported only with --cluster."""

from ray.exceptions import RayError, RayTaskError

from workers.failures import WorkersFailedError


def one_line(error: RayTaskError) -> str:
    """The last line of the node's own error, after its traceback; of workers that failed too often, the first one.

    The last line of these is about a whole run, which goes on here.
    """
    cause = getattr(error, "cause", None) or error
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    return lines[0] if isinstance(cause, WorkersFailedError) else lines[-1]


def first_line(error: RayError) -> str:
    """What an error of Ray's says, in one line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
