"""Settings of the operating system and of libraries; each does nothing where the system does not have it."""

import ctypes
import os
import platform
import struct
import sys

import cv2
import torch

TIME_SLICE_SECONDS = 0.03  # the kernel's default is 1 to 3 ms

_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}  # the number of the system call; few C libraries have a function


def use_one_thread() -> None:
    """Call it in each of several parallel processes: more threads than cores would slow them down."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    keep_freed_memory()
    use_long_time_slices()


def lower_priority() -> None:
    """Give all other processes precedence on the cores."""
    os.nice(19)


def keep_freed_memory() -> None:
    """Let glibc keep freed memory instead of returning it to the kernel.

    Each update frees and allocates the same tens of megabytes. Getting them from the kernel again, page by page, would
    take a sixth of the update's time.
    """
    if platform.libc_ver()[0] == "glibc":
        c_library = ctypes.CDLL(None)
        trim_threshold, mmap_threshold = -1, -3  # parameters of mallopt(3)
        c_library.mallopt(trim_threshold, 1 << 30)
        for size in (1 << 25, 1 << 30):  # older versions refuse the second
            c_library.mallopt(mmap_threshold, size)


def use_long_time_slices() -> None:
    """Ask the kernel for longer time slices for this process.

    There are more processes than cores, and a process that gets a core finds another one's data in the caches. With
    ten times longer slices this happens less often. Other programs do not wait longer for a core.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if sys.platform != "linux" or number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    # struct sched_attr: size, policy, flags, nice, priority, runtime (the slice), deadline, period, two utilisations
    attributes = struct.pack("=IIQiIQQQII", 56, os.SCHED_BATCH, 0, nice, 0, round(TIME_SLICE_SECONDS * 1e9), 0, 0, 0, 0)
    ctypes.CDLL(None).syscall(number, 0, attributes, 0)  # a kernel without this call changes nothing
