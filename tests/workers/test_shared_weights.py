"""Weights that one process publishes while another copies them."""

import multiprocessing

import numpy as np
import pytest
import torch

from workers.shared_block import SharedBlock
from workers.shared_weights import NOT_PUBLISHED, SharedWeights

SPAWN = multiprocessing.get_context("spawn")
WEIGHTS = 500_000
COPIES = 300


def publish_until_enough(weights: SharedWeights, enough: SharedBlock) -> None:
    torch.set_num_threads(1)
    version = 0
    while not enough.bytes.any():
        weights.publish(version, torch.full((WEIGHTS,), float(version)))
        version += 1


def test_no_copy_is_ever_torn() -> None:
    weights, enough = SharedWeights(WEIGHTS), SharedBlock(1)
    copy = torch.zeros(WEIGHTS)
    assert weights.copy_newer(NOT_PUBLISHED, copy) == NOT_PUBLISHED
    writer = SPAWN.Process(target=publish_until_enough, args=(weights, enough), daemon=True)  # ends with a failure, too
    writer.start()
    version, copies = NOT_PUBLISHED, 0
    while writer.is_alive():
        newest = weights.copy_newer(version, copy)
        if newest == version:
            writer.join(0.01 if version == NOT_PUBLISHED else 0)  # it takes a while to start
            continue
        assert newest > version
        assert (copy == newest).all()
        version, copies = newest, copies + 1
        enough.bytes[:] = copies >= COPIES
    assert writer.exitcode == 0
    version = weights.copy_newer(version, copy)
    assert (copy == version).all()
    assert weights.copy_newer(version, copy) == version, "nothing newer, nothing copied"
    weights.close()
    enough.close()


def test_a_writer_that_overtakes_the_reader_makes_it_copy_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one interleaving that tears: two publications while one copy is under way."""
    weights = SharedWeights(4)
    weights.publish(0, torch.zeros(4))
    fences = 0

    def overtake() -> None:
        nonlocal fences
        fences += 1
        if fences == 2:  # the copy of version 0 is made, and not yet looked at again
            monkeypatch.undo()
            weights.publish(1, torch.full((4,), 1.0))
            weights._versions[0] = -1  # version 2 has begun to overwrite version 0 …
            weights._buffers[0, :2] = 2.0
            monkeypatch.setattr(weights, "_order_memory", overtake)

    monkeypatch.setattr(weights, "_order_memory", overtake)
    copy = torch.zeros(4)
    assert weights.copy_newer(NOT_PUBLISHED, copy) == 1
    np.testing.assert_array_equal(copy.numpy(), 1.0)
    weights.close()
