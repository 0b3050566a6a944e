"""The folder of one run, and files in it that are either whole or not there."""

import errno
import fcntl
import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

CHECKPOINTS = "checkpoints"  # the folder of them in a run's folder
VIDEOS = "videos"  # likewise
RANDOM_BYTES = 6  # in the name of a file that is being written


def create_run_folder(results_dir: Path, env: str, now: float) -> Path:
    """Makes and returns `<results_dir>/<env>_<unix time>`, with `_2`, `_3`, … behind it where that one is taken.

    Making the folder is what claims it, so two runs never share one. A place that cannot be written raises OSError.
    """
    results_dir.mkdir(parents=True, exist_ok=True)
    name = f"{env.replace('/', '-')}_{int(now)}"  # gymnasium ids may hold a slash: ALE/Pong-v5
    folder = results_dir / name
    namesakes = 1
    while True:
        try:
            folder.mkdir()
        except FileExistsError:
            namesakes += 1
            folder = results_dir / f"{name}_{namesakes}"
        else:
            _sync_folder(results_dir)
            return folder


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Writes the file `path` so that, whatever happens, it is the old one or the whole new one.

    `content` is the bytes themselves or a function that writes them to the open file it is given. What that function
    raises is raised here, with the old file still in place and nothing else left behind. Only a process killed outright
    while writing leaves its `.<name>.<random>.tmp`, which nothing reads, and `remove_abandoned` removes.
    """
    # Not tempfile.mkstemp: its files are readable by their owner only, and the rename would keep that.
    temporary = temporary_beside(path)
    try:
        with temporary.open("xb") as file:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(file, fcntl.LOCK_EX)  # while it lasts, `remove_abandoned` lets the file be
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)
            file.flush()
            # Without the sync a power cut can keep the rename and lose the bytes it points to.
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # CTRL+C too
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def temporary_beside(path: Path) -> Path:
    """A new name for what is to become the file `path`; a killed writer's is known by it, and removed."""
    return path.with_name(f".{path.name}.{secrets.token_hex(RANDOM_BYTES)}.tmp")


def remove_abandoned(folder: Path) -> None:
    """Removes what killed writers left half-written, where it may; what a live process still writes stays."""
    for path in folder.glob(f".*.{'[0-9a-f]' * 2 * RANDOM_BYTES}.tmp"):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as indented JSON, keys in the order given, atomically. NaN and infinity raise ValueError."""
    # Made whole before the disk is touched: a value that is no JSON costs nothing.
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    # Names of files may hold bytes that are no UTF-8; escaped, they are JSON still.
    write_atomically(path, f"{text}\n".encode(errors="backslashreplace"))


def _sync_folder(folder: Path) -> None:
    """Makes new names in `folder` last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems sync files only
            raise
    finally:
        os.close(descriptor)
