"""Memory shared by two processes. Children import this file: without torch they start at once."""

import os
import tempfile
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from processes.child import start_child
from workers.shared_array import SharedArray


@dataclass(frozen=True)
class Fills:
    shared: SharedArray
    value: int

    def run(self, connection: Connection) -> None:
        self.shared.array[:] = self.value


def open_files() -> set[Path]:
    return {path for path in Path("/proc/self/fd").iterdir() if path.exists() or path.is_symlink()}


@pytest.mark.parametrize("anonymous", [True, False])
def test_a_parent_reads_what_its_child_writes(anonymous: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not anonymous:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    files_before = open_files()
    shared = SharedArray((10_000,))
    own_files = open_files() - files_before
    assert not shared.array.any()
    child = start_child(Fills(shared, 7), "child")
    with pytest.raises(EOFError):
        child.connection.recv_bytes()
    child.end()
    assert (shared.array == 7).all()
    assert own_files and {"memfd" in str(file.readlink()) for file in own_files} == {anonymous}
    assert not list(tmp_path.iterdir()), "no file that could be left"


def test_an_array_that_is_deleted_closes_its_file_and_mapped_memory_stays() -> None:
    shared = SharedArray((10_000,))
    mapped = shared.array
    mapped[:] = 3
    before = psutil.Process().num_fds()
    del shared
    assert psutil.Process().num_fds() == before - 1
    assert (mapped == 3).all()
