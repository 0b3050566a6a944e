"""What is set up for the machine at hand."""

import platform
import resource

import pytest
import torch

from agents.device import keep_freed_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's own setting")
def test_memory_that_was_freed_is_used_again_without_asking_the_kernel() -> None:
    keep_freed_memory()
    torch.ones(3_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(3_000_000)  # 2,930 pages
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 9_000  # it may move, but not each time
