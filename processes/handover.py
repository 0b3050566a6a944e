"""What a child process receives when it starts: a pickled value, and the open files that it refers to."""

import io
import os
import pickle
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any


class Handle:
    """An open file in a value for a child process. The child gets a number of its own for the same file."""

    def __init__(self, file: int) -> None:
        self.file = file

    def __reduce__(self) -> str:
        raise TypeError("open files can only be handed to a child process")


@contextmanager
def packed(*values: Any) -> Iterator[list[int]]:
    """Yield the files for a child: the pickled values, to be read by `unpack`, and the files that they refer to.

    Pipes in the values belong to the child: afterwards they are closed here.
    """
    content = io.BytesIO()
    files: list[int] = []
    with ExitStack() as stack:
        for value in values:
            _Pickler(content, files, stack).dump(value)
        file = nameless_file()
        stack.callback(os.close, file)
        with os.fdopen(os.dup(file), "wb") as writer:
            writer.write(content.getbuffer())
            writer.seek(0)  # also for the child, which shares this position
        yield [file, *files]


class _Pickler(pickle.Pickler):
    def __init__(self, content: io.BytesIO, files: list[int], pipes: ExitStack) -> None:
        super().__init__(content)
        self._files, self._pipes = files, pipes

    def persistent_id(self, value: Any) -> tuple[bool, int] | None:
        if isinstance(value, Handle):
            self._files.append(value.file)
        elif isinstance(value, Connection):
            self._pipes.enter_context(value)
            self._files.append(value.fileno())
        else:
            return None
        return isinstance(value, Connection), len(self._files) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: io.BufferedReader, files: list[int]) -> None:
        super().__init__(content)
        self._files = files

    def persistent_load(self, reference: tuple[bool, int]) -> Handle | Connection:
        is_pipe, index = reference
        return Connection(self._files[index]) if is_pipe else Handle(self._files[index])


def unpack(content: int, files: list[int]) -> Any:
    """In the child: the last of the packed values. The first is where modules are found."""
    with os.fdopen(content, "rb") as reader:
        reader.seek(0)
        sys.path[:] = pickle.load(reader)
        return _Unpickler(reader, files).load()


def nameless_file() -> int:
    """A file that the system frees when no process holds it any more; in memory, where the system can do that."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rl-platform", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
