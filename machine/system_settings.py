"""Settings of the operating system and of libraries; each does nothing where the system does not have it."""

import ctypes
import platform

import cv2
import torch


def use_one_thread() -> None:
    """Call it in each of several parallel processes: more threads than cores would slow them down."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    keep_freed_memory()


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
