"""What the operating system grants."""

import platform
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from machine.system_settings import TURN_SECONDS, keep_freed_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's own setting")
def test_memory_that_was_freed_is_used_again_without_asking_the_kernel() -> None:
    keep_freed_memory()
    for _ in range(20):  # it takes a few rounds until all has found its place
        several_at_once()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        several_at_once()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1_000


def several_at_once() -> None:
    """As an update does: more than glibc keeps by itself. 23,440 pages, which are free again at the end."""
    _ = [torch.ones(3_000_000) for _ in range(8)]


TELLS_ITS_TURN = """
import os, re
from machine.system_settings import take_long_turns
nice = os.nice(3)
take_long_turns()
if os.fork() == 0:  # what it starts has the same turns
    turn = re.search(r"^se.slice +: +(\\d+)", open("/proc/self/sched").read(), re.M).group(1)
    print(turn, os.sched_getscheduler(0) == os.SCHED_BATCH, os.nice(0) == nice)
"""


def test_turns_are_long_for_a_process_and_what_it_starts_and_no_more_important_than_before() -> None:
    version = tuple(int(number) for number in platform.release().split(".")[:2]) if sys.platform == "linux" else (0, 0)
    told_here = Path("/proc/self/sched").exists()
    if version < (6, 12) or platform.machine() not in ("x86_64", "aarch64") or not told_here:
        pytest.skip("this kernel has no turns of a length of one's own")
    told = subprocess.run([sys.executable, "-c", TELLS_ITS_TURN], capture_output=True, text=True, check=True).stdout
    assert told.split() == [str(round(TURN_SECONDS * 1e9)), "True", "True"]
