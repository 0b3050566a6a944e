"""Memory shared by two processes. Children import this file: without torch they start at once."""

import multiprocessing
import os
from pathlib import Path

import psutil
import pytest

from workers.memory.shared_block import SharedBlock

SPAWN = multiprocessing.get_context("spawn")


def fill(block: SharedBlock, value: int) -> None:
    block.bytes[:] = value


def files_in_dev_shm() -> list[str]:
    """The files there that this process uses. Other programs have some of their own."""
    mapped = [region.path for region in psutil.Process().memory_maps()]
    return [path for path in mapped if path.startswith("/dev/shm/") and Path(path).exists()]


@pytest.mark.parametrize("anonymous", [True, False])
def test_a_parent_reads_what_its_child_writes(anonymous: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not anonymous:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    block = SharedBlock(10_000)
    assert not block.bytes.any()
    child = SPAWN.Process(target=fill, args=(block, 7))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert (block.bytes == 7).all()
    assert not files_in_dev_shm()
    block.close()
    assert (block.bytes == 7).all(), "mapped memory stays readable"


def test_a_block_that_is_deleted_closes_its_file_and_mapped_memory_stays() -> None:
    block = SharedBlock(10_000)
    mapped = block.bytes
    mapped[:] = 3
    before = psutil.Process().num_fds()
    del block
    assert psutil.Process().num_fds() == before - 1
    assert (mapped == 3).all()
