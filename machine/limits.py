"""Limits of the system (ulimit) that a process can run into, and the sentence for an error that one of them causes."""

import errno
import os
import resource
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

from options.rules import UsageError


class Limit(NamedTuple):
    """A limit as the shell knows it."""

    flag: str  # of ulimit
    number: int  # of getrlimit
    unit: int  # bytes or pieces in one unit of ulimit
    name: str


ADDRESS_SPACE = Limit("-v", resource.RLIMIT_AS, 1024, "KiB")
DATA = Limit("-d", resource.RLIMIT_DATA, 1024, "KiB")
FILE_SIZE = Limit("-f", resource.RLIMIT_FSIZE, 1024, "KiB")
OPEN_FILES = Limit("-n", resource.RLIMIT_NOFILE, 1, "files")
PROCESSES = Limit("-u", resource.RLIMIT_NPROC, 1, "processes and threads")

# Bytes of address space. With less, numpy's and torch's libraries abort while they start a thread for each usable core.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
LEAST_MEMORY = (1024 << 20) + CORES * (128 << 20)

OTHER_FILES, FILES_OF_PROCESS = 256, 4  # open files: of a process itself, and for each child process

# What cannot be had, the limits that may be the reason, and how errors that say so are recognised.
MEMORY = ("memory", (ADDRESS_SPACE, DATA), {errno.ENOMEM})
MEMORY_WORDS = (
    *("failed to map segment", "cannot allocate memory", "can't allocate memory", "not enough memory", "bad_alloc"),
    *("cannot apply additional memory protection", "cannot create shared object descriptor", "unable to mmap"),
)
THREADS = ("another thread or process", (PROCESSES, ADDRESS_SPACE), {errno.EAGAIN})
THREAD_WORDS = ("can't start new thread", "resource temporarily unavailable")
FILES = ("another open file", (OPEN_FILES,), {errno.EMFILE})
SIZES = ("a larger file or block of shared memory", (FILE_SIZE,), {errno.EFBIG})
SIZE_WORDS = ("no usable temporary directory",)  # a file of a few bytes could not be written anywhere


def limit_reached(error: BaseException) -> str | None:
    """A sentence that names the limit behind an error; None if no limit is."""
    for part in _chain(error):
        for wanted, limits, numbers in (MEMORY, THREADS, FILES, SIZES):
            if isinstance(part, OSError) and part.errno in numbers:
                return _sentence(wanted, limits)
        text = str(part).lower()
        if isinstance(part, MemoryError) or any(word in text for word in MEMORY_WORDS):
            return _sentence(*MEMORY[:2])
        if any(word in text for word in THREAD_WORDS):
            return _sentence(*THREADS[:2])
        if any(word in text for word in SIZE_WORDS) and _reached(SIZES[1]):
            return _sentence(*SIZES[:2])
    return None


def allow_processes(count: int) -> None:
    """Let this process open the files of so many children, as far as the hard limit allows; children inherit this."""
    allow_open_files(OTHER_FILES + FILES_OF_PROCESS * count)


def allow_open_files(number: int) -> None:
    now, most = resource.getrlimit(OPEN_FILES.number)
    wanted = number if most == resource.RLIM_INFINITY else min(number, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(OPEN_FILES.number, (wanted, most))


def explain_limits() -> None:
    """From now on, an error that a limit causes ends the program with one sentence instead of a traceback."""
    sys.excepthook = _show


def end_if_memory_is_limited() -> None:
    """Exit with one sentence if the limits are too low to load the libraries."""
    try:
        check_memory_limits()
    except UsageError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def _show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    sentence = limit_reached(error)
    if sentence is None:
        sys.__excepthook__(kind, error, traceback)
    else:
        print(sentence, file=sys.stderr)


def check_memory_limits() -> None:
    """Raise a UsageError if the limits are too low to load the libraries: they abort instead of raising an error."""
    for limit in MEMORY[1]:
        allowed = resource.getrlimit(limit.number)[0]
        if allowed != resource.RLIM_INFINITY and allowed < LEAST_MEMORY:
            raise UsageError(
                f"ulimit {limit.flag} of {allowed // limit.unit:,} {limit.name} is too low to load the libraries; "
                f"unlimited, or at least {LEAST_MEMORY // limit.unit:,}, would be right."
            )


def limits_behind(error: OSError) -> str:
    """The error of the system, with the limits that may be its reason."""
    numbers = ((limits, numbers) for _, limits, numbers in (MEMORY, THREADS, FILES, SIZES))
    limits = next((limits for limits, numbers in numbers if error.errno in numbers), ())
    return ", ".join([error.strerror or str(error), *_reached(limits)])


def _sentence(wanted: str, limits: tuple[Limit, ...]) -> str:
    reached = _reached(limits)
    if not reached:
        return f"The program needs {wanted}, and the system has no more; a machine with more would be right."
    return f"The program needs {wanted}, which {' and '.join(reached)} does not allow; a higher limit would be right."


def _reached(limits: tuple[Limit, ...]) -> list[str]:
    """Those of the limits that are set, with their values."""
    found = [(limit, resource.getrlimit(limit.number)[0]) for limit in limits]
    return [
        f"ulimit {limit.flag} of {value // limit.unit:,} {limit.name}"
        for limit, value in found
        if value != resource.RLIM_INFINITY
    ]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
