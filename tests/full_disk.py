"""A full disk, simulated for this process with a limit on file sizes: writes beyond it fail."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def files_limited_to(nbytes: int) -> Iterator[None]:
    """Limit all files of this process to `nbytes`. A write across the limit is cut short, and the next one fails."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, most))  # Python ignores the signal SIGXFSZ
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
