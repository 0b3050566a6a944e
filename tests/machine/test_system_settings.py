"""Settings that the operating system and glibc accept."""

import platform
import resource

import pytest
import torch

from machine.system_settings import keep_freed_memory

pytestmark = pytest.mark.slow


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's own setting")
def test_freed_memory_is_reused_without_the_kernel() -> None:
    keep_freed_memory()
    for _ in range(20):  # the first rounds still allocate
        allocate_like_an_update()
    faults = [page_faults_of_ten_updates() for _ in range(5)]
    assert min(faults) < 1_000, "the kernel may take pages away at any time, but not in all of them"


def page_faults_of_ten_updates() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        allocate_like_an_update()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def allocate_like_an_update() -> None:
    """As an update does: more than glibc keeps by default. 23,440 pages, which are free again at the end."""
    _ = [torch.ones(3_000_000) for _ in range(8)]
