"""Memory seen from both sides. The children import this file: without torch they start at once."""

import multiprocessing
import os
from pathlib import Path

import pytest

from workers.shared_block import SharedBlock

SPAWN = multiprocessing.get_context("spawn")


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


def test_a_block_that_is_forgotten_is_closed_but_what_is_mapped_stays() -> None:
    block = SharedBlock(10_000)
    shown, held = block.bytes, block._fd
    shown[:] = 3
    assert os.fstat(held).st_size == 10_000
    del block
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(held)
    assert (shown == 3).all()
