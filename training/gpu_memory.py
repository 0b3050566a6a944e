"""Ends a run whose GPU has no memory left, with a sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from processes.failures import RunFailedError


@contextmanager
def explained() -> Iterator[None]:
    """For all that a run does on the GPU."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise RunFailedError(
            "the GPU's memory is used up; a smaller --batch_size, --r_f_steps or --network would be right, or fewer "
            "other programs on the GPU."
        ) from error
