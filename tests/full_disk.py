"""A disk that is full, as far as one process can tell: the system takes what fits, and then refuses."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def files_limited_to(nbytes: int) -> Iterator[None]:
    """No file of this process grows past so many bytes; a write beyond is cut short there, and the next one fails."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, most))  # Python ignores the signal that goes with it
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
