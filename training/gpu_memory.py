"""Ends a run whose GPU has no memory left, with a sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from agents.learner import Learner
from workers.failures import RunFailedError

REMEDY = "a smaller --batch_size, --r_f_steps or --network would be right, or fewer other programs on the GPU"


@contextmanager
def explained(learner: Learner | None = None) -> Iterator[None]:
    """For the training loop with its learner, and for what comes before and after it.

    A batch that does not fit is divided by the learner; what arrives here cannot be.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        parts = 1 if learner is None else learner.batch_parts
        divided = f", although a batch is computed in {parts} parts" if parts > 1 else ""
        raise RunFailedError(f"the GPU's memory is used up{divided}; {REMEDY}.") from error


def end_if_half_updated(learner: Learner, has_checkpoint: bool) -> None:
    """Raise a RunFailedError if the memory was used up in the middle of a step: its weights are not to be saved."""
    if learner.is_intact:
        return
    kept = "the earlier checkpoints are complete" if has_checkpoint else "nothing was saved before"
    raise RunFailedError(
        f"the GPU's memory was used up in the middle of a step of the optimizer, and the weights are not saved; "
        f"{REMEDY}; {kept}."
    )
