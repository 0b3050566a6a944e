"""What crosses process borders, seen from both sides."""

import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from workers.shared_memory import SharedBlock
from workers.shared_weights import NOT_PUBLISHED, SharedWeights

SPAWN = multiprocessing.get_context("spawn")
WEIGHTS = 500_000


def fill(block: SharedBlock, value: int) -> None:
    block.bytes[:] = value


def names_in_dev_shm() -> set[str]:
    folder = Path("/dev/shm")
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


@pytest.mark.parametrize("anonymous", [True, False])
def test_a_child_writes_what_its_parent_sees(anonymous: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not anonymous:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    before = names_in_dev_shm()
    block = SharedBlock(10_000)
    assert not block.bytes.any()
    child = SPAWN.Process(target=fill, args=(block, 7))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert (block.bytes == 7).all()
    assert names_in_dev_shm() == before
    block.close()
    assert (block.bytes == 7).all(), "what is mapped stays readable"


def publish_many(weights: SharedWeights, versions: int) -> None:
    for version in range(versions):
        weights.publish(version, torch.full((WEIGHTS,), float(version)))


def test_no_copy_is_ever_torn() -> None:
    weights = SharedWeights(WEIGHTS)
    copy = torch.zeros(WEIGHTS)
    assert weights.copy_newer(NOT_PUBLISHED, copy) == NOT_PUBLISHED
    writer = SPAWN.Process(target=publish_many, args=(weights, 2000))
    writer.start()
    version, copies = NOT_PUBLISHED, 0
    while writer.is_alive() or version < 1999:
        newest = weights.copy_newer(version, copy)
        if newest == version:
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
