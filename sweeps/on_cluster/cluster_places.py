"""The nodes of a Ray cluster, and which of them have room for another run. Imported only with --cluster."""

import logging
import platform
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray._private.state import available_resources_per_node
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.code_version import ROOT
from cluster.probe import connect
from options.rules import UsageError
from sweeps.on_cluster import node_code, node_job
from sweeps.on_cluster.cluster_job import ClusterJob
from sweeps.places import RunJob

NODES_SECONDS = 1.0  # between two looks at the nodes of the cluster
QUIET_SECONDS = 10.0  # without a run and without room, until the console says so


@dataclass
class Node:
    """A node that is in the cluster."""

    name: str
    examination: Any  # the answer of `examine_node`, as soon as it is there
    checkout: str | None = None  # None until it has been examined, or if it is left out
    cpus: float = 0.0
    gpus: float = 0.0
    jobs: int = 0  # of this sweep


class ClusterPlaces:
    """Starts runs on nodes that have the CPUs and GPUs for them, and the same code and Python as this machine."""

    def __init__(
        self, address: str, program: Path, cpus: float, gpus: float, most: int | None, print_line: Callable[[str], None]
    ) -> None:
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            connect(address, logging_level=logging.CRITICAL)
        except Exception as error:  # Ray raises all kinds of errors, and each one means that the cluster cannot be used
            text = " ".join(str(error).split())[:200]
            raise UsageError(f"--cluster={address} cannot be used: {text or type(error).__name__}.") from None
        for number, handler in handlers.items():  # Ray sets its own
            signal.signal(number, handler)
        for module in (node_code, node_job):  # a node gets them by value, before it is known where its code is
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        self._program = str(program.relative_to(ROOT))
        self._cpus, self._gpus, self._most = cpus, gpus, most
        self._print_line = print_line
        self._version = node_code.code_version(ROOT)
        self._examine = ray.remote(num_cpus=0)(node_code.examine_node)
        self._actor = ray.remote(node_job.NodeJob)
        self._nodes: dict[str, Node] = {}
        self._looked_at = self._had_room_at = time.monotonic()
        self._said_full = False
        self._lock = threading.Lock()  # jobs end in threads of their own
        self._look()

    def has_room(self, running: int) -> bool:
        now = time.monotonic()
        if now - self._looked_at >= NODES_SECONDS:
            self._looked_at = now
            self._look()
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
        node = self._nodes[node_id]
        actor = self._actor.options(
            num_cpus=self._cpus, num_gpus=self._gpus, scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, False)
        ).remote(node.checkout, self._gpus > 0)
        with self._lock:
            node.jobs += 1
        node.cpus -= self._cpus
        node.gpus -= self._gpus

        def free() -> None:
            with self._lock:
                node.jobs -= 1

        return ClusterJob(folder, self._program, actor, node.name, free)

    @property
    def words(self) -> str:
        most = "as many as fit on the nodes" if self._most is None else f"at most {self._most}"
        return f"each with {self._words()}, {most}"

    def close(self) -> None:
        ray.shutdown()

    def _words(self) -> str:
        gpus = f" and {self._gpus:g} GPUs" if self._gpus else ""
        return f"{self._cpus:g} CPUs{gpus}"

    def _look(self) -> None:
        """Learn which nodes there are, and what they answered."""
        nodes = ray.nodes()  # type: ignore[no-untyped-call]
        alive = {node["NodeID"]: node for node in nodes if node["Alive"]}
        for node_id in self._nodes.keys() - alive.keys():
            self._print_line(f"node {self._nodes.pop(node_id).name} has left the cluster")
        for node_id in alive.keys() - self._nodes.keys():
            self._nodes[node_id] = self._new_node(node_id, alive[node_id])
        available = available_resources_per_node()  # type: ignore[no-untyped-call]
        for node_id, node in self._nodes.items():
            self._read_answer(node)
            total, free = alive[node_id]["Resources"], available.get(node_id, {})
            # What is free is reported late, so the jobs of this sweep are counted here too.
            node.cpus = min(total.get("CPU", 0) - node.jobs * self._cpus, free.get("CPU", 0))
            node.gpus = min(total.get("GPU", 0) - node.jobs * self._gpus, free.get("GPU", 0))

    def _new_node(self, node_id: str, entry: dict[str, Any]) -> Node:
        name = str(entry.get("NodeName") or entry["NodeManagerAddress"])
        names = {node.name for node in self._nodes.values()}
        number = 1
        while (unique := name if number == 1 else f"{name}#{number}") in names:  # several nodes on one machine
            number += 1
        where = NodeAffinitySchedulingStrategy(node_id, False)
        answer = self._examine.options(scheduling_strategy=where, max_retries=0).remote(
            str(ROOT), self._version, platform.python_version()
        )
        return Node(unique, answer)

    def _read_answer(self, node: Node) -> None:
        if node.examination is None or not ray.wait([node.examination], timeout=0)[0]:
            return
        try:
            node.checkout, problem = ray.get(node.examination)
        except RayError as error:
            problem = f"it cannot run anything ({type(error).__name__})"
        node.examination = None
        if problem is not None:
            node.checkout = None
            self._print_line(f"node {node.name} is left out: {problem}")

    def _find(self) -> str | None:
        """The node with the most free CPUs that has room for a run."""
        able = {
            node_id: node
            for node_id, node in self._nodes.items()
            if node.checkout is not None and node.cpus >= self._cpus and node.gpus >= self._gpus
        }
        return max(able, key=lambda node_id: able[node_id].cpus) if able else None
