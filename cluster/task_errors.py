"""What an error says that code on a node has raised. Imported only with --cluster."""

from ray.exceptions import RayTaskError


def last_line(error: RayTaskError) -> str:
    """The last line of the node's own error; what comes before it is the traceback."""
    cause = getattr(error, "cause", None) or error
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    return lines[-1]
