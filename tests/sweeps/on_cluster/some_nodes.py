"""A Ray cluster on this machine, in a process of its own: the tests do not load Ray.

Each node has a folder of its own for temporary files, as if it were another machine.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[3]


class SomeNodes:
    """A cluster for tests."""

    def __init__(self, **environment: str) -> None:
        # The paths of Unix sockets must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="rl", dir="/tmp"))
        self.environment = {**os.environ, "RAY_TMPDIR": str(self.folder), "RAY_USAGE_STATS_ENABLED": "0", **environment}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sweeps.on_cluster.nodes_process"],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.address = str(self._answer()["address"])
        self._count = 0

    def add(self, cpus: int = 2, **environment: str) -> Path:
        """Start a node; returns its folder of temporary files."""
        own = self.folder / f"node_{self._count}"
        own.mkdir()
        self._count += 1
        self._ask(do="add", cpus=cpus, environment={"TMPDIR": str(own), **environment})
        return own

    def kill(self, folder: Path) -> None:
        """Kill all processes of a node, as if its machine had lost its power."""
        self._ask(do="kill", index=int(folder.name.partition("_")[2]))

    def actors(self) -> list[psutil.Process]:
        """The processes that own runs on all nodes."""
        children = psutil.Process(self._process.pid).children(recursive=True)
        return [each for each in children if "ray::NodeJob" in _command(each)]

    def close(self) -> None:
        everything = psutil.Process(self._process.pid).children(recursive=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            for process in psutil.wait_procs(everything, timeout=5)[1]:
                process.kill()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _ask(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError("the process of the cluster has ended")


def processes_of(folders: Sequence[Path]) -> list[str]:
    """The command lines of all processes that name one of these folders or run in it: guards and runs of nodes."""
    words = [str(folder / "rl_sweep_") for folder in folders]
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
        left = processes_of(folders) + [str(path) for folder in folders for path in folder.glob("rl_sweep_*")]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def _command(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline()) if process.status() != psutil.STATUS_ZOMBIE else ""
    return ""
