"""A Ray cluster on this machine whose nodes have a folder each for temporary files, as if they were other machines."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.cluster.some_nodes import SomeNodes


class NodesWithFolders(SomeNodes):
    """A cluster for tests of sweeps."""

    def __init__(self, **environment: str) -> None:
        super().__init__(**environment)
        self._indices: dict[Path, int] = {}

    def add_with_folder(self, cpus: int = 2, **environment: str) -> Path:
        """Start a node; returns its folder of temporary files."""
        own = self.folder / f"node_{len(self._indices)}"
        own.mkdir()
        self._indices[own] = self.add(cpus, TMPDIR=str(own), **environment)
        return own

    def kill_with_folder(self, folder: Path) -> None:
        """Kill all processes of this node, as if its machine had lost its power."""
        self.kill(self._indices[folder])

    def jobs(self) -> list[psutil.Process]:
        """The processes that own runs on all nodes."""
        return [each for each in self.processes() if "ray::NodeActor" in _command(each)]


def processes_of(folders: Sequence[Path]) -> list[str]:
    """The command lines of all processes that name one of these folders or run in it: guards and runs of nodes."""
    words = [str(folder / "rl_program_") for folder in folders]
    lines = []
    for process in psutil.process_iter():
        line, place = _command(process), ""
        with suppress(psutil.Error):
            place = process.cwd()
        if line and any(word in line or word in place for word in words):
            lines.append(line)
    return lines


def wait_until_gone(folders: Sequence[Path], seconds: float = 30.0) -> list[str]:
    """Processes and files of runs that are left in the folders of nodes after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        left = processes_of(folders) + [str(path) for folder in folders for path in folder.glob("rl_program_*")]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def _command(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline()) if process.status() != psutil.STATUS_ZOMBIE else ""
    return ""
