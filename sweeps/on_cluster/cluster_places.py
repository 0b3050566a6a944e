"""The nodes of a Ray cluster, and which of them have room for another run. Imported only with --cluster."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.code_version import ROOT
from cluster.programs.nodes import ClusterNodes
from sweeps.on_cluster import node_job
from sweeps.on_cluster.cluster_job import ClusterJob
from sweeps.places import RunJob

NODES_SECONDS = 1.0  # between two looks at the nodes of the cluster
QUIET_SECONDS = 10.0  # without a run and without room, until the console says so
UNITS = 10_000  # Ray counts resources in ten-thousandths


class ClusterPlaces:
    """Starts runs on nodes that have the CPUs and GPUs for them, and the same code and Python as this machine."""

    def __init__(
        self, address: str, program: Path, cpus: float, gpus: float, most: int | None, print_line: Callable[[str], None]
    ) -> None:
        self._nodes = ClusterNodes(address, node_job, print_line)
        self._program = str(program.relative_to(ROOT))
        self._cpus, self._gpus, self._most = cpus, gpus, most
        self._print_line = print_line
        self._actor = ray.remote(node_job.NodeJob)
        self._jobs: Counter[str] = Counter()  # of this sweep, by Ray's id of their node
        self._looked_at = self._had_room_at = time.monotonic()
        self._said_full = False
        self._lock = threading.Lock()  # jobs end in threads of their own
        self._nodes.look()

    def has_room(self, running: int) -> bool:
        now = time.monotonic()
        if now - self._looked_at >= NODES_SECONDS:
            self._looked_at = now
            self._nodes.look()
        found = (self._most is None or running < self._most) and self._find() is not None
        if found or running:
            self._had_room_at, self._said_full = now, False
        elif now - self._had_room_at > QUIET_SECONDS and not self._said_full:
            self._said_full = True
            self._print_line(f"waiting for a node with {self._words()} for a run")
        return found

    def make_job(self, folder: Path) -> RunJob:
        node_id = self._find()
        if node_id is None:
            raise OSError(0, "no node has room for it any more")
        node = self._nodes.nodes[node_id]

        def make_actor() -> Any:
            where = NodeAffinitySchedulingStrategy(node_id, False)
            options = self._actor.options(num_cpus=self._cpus, num_gpus=self._gpus, scheduling_strategy=where)
            actor = options.remote(node.checkout, self._gpus > 0)
            with self._lock:
                self._jobs[node_id] += 1
            node.free_cpus -= self._cpus
            node.free_gpus -= self._gpus
            return actor

        def free() -> None:
            with self._lock:
                self._jobs[node_id] -= 1

        return ClusterJob(folder, self._program, node.name, make_actor, free, self._print_line)

    @property
    def words(self) -> str:
        most = "as many as fit on the nodes" if self._most is None else f"at most {self._most}"
        return f"each with {self._words()}, {most}"

    def close(self) -> None:
        ray.shutdown()

    def _words(self) -> str:
        gpus = f" and {self._gpus:g} GPUs" if self._gpus else ""
        return f"{self._cpus:g} CPUs{gpus}"

    def _find(self) -> str | None:
        """The node with the most free CPUs that has room for a run."""
        free: dict[str, float] = {}  # CPUs
        for node_id, node in self._nodes.nodes.items():
            # What is free is reported late, so the jobs of this sweep are counted here too.
            jobs = self._jobs[node_id]
            room = min(runs_that_fit(node.all_cpus, self._cpus) - jobs, runs_that_fit(node.free_cpus, self._cpus))
            if self._gpus:
                in_all = runs_on_gpus(node.all_gpus, self._gpus)
                room = min(room, in_all - jobs, runs_that_fit(node.free_gpus, self._gpus))
            if node.checkout is not None and room > 0:
                free[node_id] = min(node.all_cpus - jobs * self._cpus, node.free_cpus)
        return max(free, key=lambda node_id: free[node_id]) if free else None


def runs_that_fit(amount: float, each: float) -> int:
    """How many runs with `each` fit in the amount. In whole units: 1 - 4 * 0.2 is a little less than 0.2."""
    return round(amount * UNITS) // max(1, round(each * UNITS))


def runs_on_gpus(gpus: float, each: float) -> int:
    """A part of a GPU is one of a single GPU: two GPUs have room for two runs with 0.6, not for three."""
    return int(gpus) * runs_that_fit(1, each) if each < 1 else runs_that_fit(gpus, each)
