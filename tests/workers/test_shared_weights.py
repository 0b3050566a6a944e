"""Weights that one process publishes while another copies them."""

import multiprocessing

import numpy as np
import pytest
import torch

from workers.shared_weights import NOT_PUBLISHED, SharedWeights

SPAWN = multiprocessing.get_context("spawn")
WEIGHTS = 500_000
VERSIONS = 500


def publish_many(weights: SharedWeights) -> None:
    torch.set_num_threads(1)
    for version in range(VERSIONS):
        weights.publish(version, torch.full((WEIGHTS,), float(version)))


def test_no_copy_is_ever_torn() -> None:
    weights = SharedWeights(WEIGHTS)
    copy = torch.zeros(WEIGHTS)
    assert weights.copy_newer(NOT_PUBLISHED, copy) == NOT_PUBLISHED
    writer = SPAWN.Process(target=publish_many, args=(weights,))
    writer.start()
    version, copies = NOT_PUBLISHED, 0
    while writer.is_alive() or version < VERSIONS - 1:
        newest = weights.copy_newer(version, copy)
        if newest == version:
            writer.join(0.01 if version == NOT_PUBLISHED else 0)  # it takes a while to start
            continue
        assert newest > version
        assert (copy == newest).all()
        version, copies = newest, copies + 1
    writer.join()
    assert copies > 10
    assert weights.copy_newer(version, copy) == version, "nothing newer, nothing copied"
    weights.close()


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
