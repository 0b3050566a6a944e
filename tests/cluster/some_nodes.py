"""A Ray cluster on this machine, in a process of its own: neither the tests nor the learner load Ray."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]


class SomeNodes:
    """A cluster for tests."""

    def __init__(self, **environment: str) -> None:
        """`environment` is added to that of all nodes, and of the runs."""
        # The paths of Unix sockets must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="rl", dir="/tmp"))
        self.environment = {**os.environ, "RAY_TMPDIR": str(self.folder), "RAY_USAGE_STATS_ENABLED": "0", **environment}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.node_server"],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.address = str(self._answer()["address"])
        self.alive: set[int] = set()  # the nodes apart from the head

    def add(self, cpus: int = 1, **environment: str) -> int:
        """Start a node; returns its index."""
        index = int(self._ask(do="add", cpus=cpus, environment=environment)["index"])
        self.alive.add(index)
        return index

    def kill(self, index: int) -> None:
        """Kill all processes of a node, as if its machine had lost its power."""
        self._ask(do="kill", index=index)
        self.alive.discard(index)

    def kill_all(self) -> None:
        for index in sorted(self.alive):
            self.kill(index)

    def raylet(self, index: int) -> psutil.Process:
        return psutil.Process(int(self._ask(do="raylet", index=index)["pid"]))

    def processes(self) -> list[psutil.Process]:
        """All processes of Ray on all nodes, and those that they have started."""
        return psutil.Process(self._process.pid).children(recursive=True)

    def players(self) -> list[psutil.Process]:
        """The actors of runs on all nodes, and their workers."""
        actors = [each for each in self.processes() if _is_actor(each)]
        return [*actors, *(child for actor in actors for child in _workers(actor))]

    def close(self) -> None:
        everything = self.processes()
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


def _is_actor(process: psutil.Process) -> bool:
    try:
        return "ray::NodeActor" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _workers(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [child for child in process.children(recursive=True) if child.name().startswith("worker ")]
    except psutil.NoSuchProcess:
        return []


def wait_until_gone(processes: list[psutil.Process], seconds: float = 30.0) -> list[psutil.Process]:
    """Those that are left after so many seconds; a zombie is gone."""
    deadline = time.monotonic() + seconds
    while left := [each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return left
