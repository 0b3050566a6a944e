"""A sweep on a cluster, in a process of its own: multi_train.py with a fake main.py."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster.followed_program import FollowedProgram
from tests.sweeps.fake_sweeps import FAKE, command
from tests.sweeps.some_nodes import NodesWithFolders

CPUS = ["--worker_count=1", "--learner_threads=1"]


class ClusterSweep(FollowedProgram):
    """Starts the sweep, and follows what it prints."""

    def __init__(
        self, nodes: NodesWithFolders, folder: Path, definition: dict[str, Any], *words: str, program: Path = FAKE
    ) -> None:
        self.folder = folder
        *own, steps = command(folder, definition)
        steps = next((word for word in words if word.startswith("--environment_max_steps=")), steps)
        others = [word for word in words if word != steps]
        arguments = [*own, steps, f"--cluster={nodes.address}", "--job_cpus=2", *CPUS, *others]
        main = f"multi_train.PROGRAM = pathlib.Path({str(program)!r}); sys.exit(multi_train.main({arguments}))"
        code = f"import multi_train, pathlib, sys; {main}"
        super().__init__(["-c", code], {**nodes.environment, "PYTHONUNBUFFERED": "1"})

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self, seconds: float = 90.0) -> int:
        """Wait for its end; returns the exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.output}") from None
        self.reader.join(5)
        return code

    def wait_for(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"it did not come to that:\n{self.output}")
            time.sleep(0.05)


def metrics_lines(job: Path) -> int:
    """How many reports of a job have come to the sweep's folder."""
    return sum(path.read_text().count("\n") for path in job.glob("Game_*/metrics.jsonl"))


def checkpoints(job: Path) -> list[str]:
    return sorted(str(path.relative_to(job)) for path in job.glob("Game_*/checkpoints/*.pt"))
