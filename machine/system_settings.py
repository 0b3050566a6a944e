"""What is asked of the operating system and of the libraries, each where there is such a thing to ask."""

import ctypes
import os
import platform
import struct
import sys

import cv2
import torch

TURN_SECONDS = 0.03  # the kernel's own are of 1 to 3 ms

_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}  # numbers of the system call; few C libraries have a name for it


def settle_on_one_core() -> None:
    """For one process of several: they are what runs in parallel, and threads of each would only be in their way."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    keep_freed_memory()


def give_way() -> None:
    """Let whoever else wants a core have it first."""
    os.nice(19)


def keep_freed_memory() -> None:
    """Let glibc keep what is freed, instead of handing it back to the kernel.

    Each update frees and asks again for the same tens of megabytes; to take them anew, page by page, costs it a sixth
    of its time.
    """
    if platform.libc_ver()[0] == "glibc":
        c_library = ctypes.CDLL(None)
        trim_threshold, mmap_threshold = -1, -3  # parameters of mallopt(3)
        c_library.mallopt(trim_threshold, 1 << 30)
        for size in (1 << 25, 1 << 30):  # older versions refuse the second
            c_library.mallopt(mmap_threshold, size)


def take_long_turns() -> None:
    """Ask the kernel to let this process, and all it starts from now on, compute for longer at a time.

    Learner and workers are more than the cores. Each that takes a core over finds another's data in the caches; so
    they had better change places ten times less often. Whoever else needs a core gets it as soon as before.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if sys.platform != "linux" or number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    # struct sched_attr: size, policy, flags, nice, priority, runtime (the turn), deadline, period, two utilisations
    attributes = struct.pack("=IIQiIQQQII", 56, os.SCHED_BATCH, 0, nice, 0, round(TURN_SECONDS * 1e9), 0, 0, 0, 0)
    ctypes.CDLL(None).syscall(number, 0, attributes, 0)  # a kernel that does not know it leaves all as it was
