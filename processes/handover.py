"""What a child process receives when it starts: a pickled value, and the open files that it refers to."""

import io
import os
import pickle
import tempfile
from multiprocessing.connection import Connection
from typing import Any


class Handle:
    """An open file in a value for a child process. The child gets a number of its own for the same file."""

    def __init__(self, file: int) -> None:
        self.file = file

    def __reduce__(self) -> str:
        raise TypeError("open files can only be handed to a child process")


class Packed:
    """A value for a child: `files` are its content, to be read by `unpack`, and then the files that it refers to.

    Pipes in the value belong to the child: `close` closes them here.
    """

    def __init__(self, *values: Any) -> None:
        content = io.BytesIO()
        self._pipes: list[Connection] = []
        handed: list[int] = []
        try:
            for value in values:
                _Pickler(content, handed, self._pipes).dump(value)
            self._content = nameless_file()
        except BaseException:
            self._close_pipes()
            raise
        self.files = [self._content, *handed]
        with os.fdopen(os.dup(self._content), "wb") as writer:
            writer.write(content.getbuffer())
            writer.seek(0)  # also for the child, which shares this position

    def close(self) -> None:
        os.close(self._content)
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in self._pipes:
            pipe.close()


class _Pickler(pickle.Pickler):
    def __init__(self, content: io.BytesIO, files: list[int], pipes: list[Connection]) -> None:
        super().__init__(content)
        self._files, self._pipes = files, pipes

    def persistent_id(self, value: Any) -> tuple[bool, int] | None:
        if isinstance(value, Handle):
            self._files.append(value.file)
        elif isinstance(value, Connection):
            self._pipes.append(value)
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
    """In the child: the last of the packed values; those before it are read already."""
    with os.fdopen(content, "rb") as reader:
        reader.seek(0)
        pickle.load(reader)
        return _Unpickler(reader, files).load()


def nameless_file() -> int:
    """A file that the system frees when no process holds it any more; in memory, where the system can do that."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rl-platform", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
