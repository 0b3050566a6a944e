"""Settings that the operating system and glibc accept."""

import platform
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from machine.system_settings import TIME_SLICE_SECONDS, keep_freed_memory

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


PRINTS_ITS_TIME_SLICE = """
import os, re
from machine.system_settings import use_long_time_slices
nice = os.nice(3)
use_long_time_slices()
if os.fork() == 0:  # a child has the same time slices
    time_slice = re.search(r"^se.slice +: +(\\d+)", open("/proc/self/sched").read(), re.M).group(1)
    print(time_slice, os.sched_getscheduler(0) == os.SCHED_BATCH, os.nice(0) == nice)
"""


def test_time_slices_are_long_for_a_process_and_its_children_and_their_priority_stays() -> None:
    version = tuple(int(number) for number in platform.release().split(".")[:2]) if sys.platform == "linux" else (0, 0)
    has_sched_file = Path("/proc/self/sched").exists()
    if version < (6, 12) or platform.machine() not in ("x86_64", "aarch64") or not has_sched_file:
        pytest.skip("this kernel has no time slices of a chosen length")
    printed = subprocess.run(
        [sys.executable, "-c", PRINTS_ITS_TIME_SLICE], capture_output=True, text=True, check=True
    ).stdout
    assert printed.split() == [str(round(TIME_SLICE_SECONDS * 1e9)), "True", "True"]
