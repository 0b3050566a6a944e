"""A run on a cluster, in a process group of its own."""

import os
import signal
import time
from pathlib import Path

import psutil

from tests.cluster.followed_program import FollowedProgram
from tests.cluster.some_nodes import SomeNodes
from tests.read_metrics import read_metrics

CATCH_PROGRAM = ("-m", "tests.cluster.catch_main")


class ClusterRun(FollowedProgram):
    """Starts the run, and follows what it prints."""

    def __init__(self, nodes: SomeNodes, results: Path, *flags: str, program: tuple[str, ...] = CATCH_PROGRAM) -> None:
        """`program` are the first words after `python`; by default, the run trains Catch."""
        self._nodes = nodes
        self._results = results
        self._before = set(results.iterdir()) if results.exists() else set()
        flags = (f"--cluster={nodes.address}", f"--results_dir={results}", *flags)
        super().__init__([*program, *flags], nodes.environment)

    @property
    def folder(self) -> Path:
        (folder,) = set(self._results.iterdir()) - self._before
        return folder

    def wait_for(self, words: str, seconds: float = 150.0, after: int = 0) -> int:
        """Wait until a line after the first `after` ones has the words; return how many lines there are up to it."""
        deadline = time.monotonic() + seconds
        place = after
        while time.monotonic() < deadline:
            while place < len(self.lines):
                place += 1
                if words in self.lines[place - 1]:
                    return place
            if self.process.poll() is not None and not self.reader.is_alive() and place == len(self.lines):
                break
            time.sleep(0.02)
        raise AssertionError(f"{words!r} was not printed:\n{self.output}")

    def wait_for_steps(self, more: int, seconds: float = 150.0) -> None:
        """Wait until the run has received so many more steps than now."""
        wanted = self.steps() + more
        deadline = time.monotonic() + seconds
        while self.steps() < wanted:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"{self.steps():,} steps, not {wanted:,}:\n{self.output}")
            time.sleep(0.05)

    def steps(self) -> int:
        """Agent steps of the newest report."""
        path = self.folder / "metrics.jsonl"
        reports = read_metrics(path) if path.exists() else []
        return int(str(reports[-1]["agent_steps"])) if reports else 0

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def gateway(self) -> psutil.Process:
        """The child that has loaded Ray."""
        (gateway,) = [child for child in self.children() if has_loaded_ray(child)]
        return gateway

    def stop(self) -> str:
        """Stop it in good order; return what it printed."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.finish()

    def finish(self, seconds: float = 120.0) -> str:
        self.process.wait(seconds)
        self.reader.join(10)
        assert self.process.returncode == 0 and "Traceback" not in self.output, self.output
        return self.output


def has_loaded_ray(process: psutil.Process) -> bool:
    return any("_raylet" in mapped.path for mapped in process.memory_maps())
