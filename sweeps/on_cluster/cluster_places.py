"""Room for another run on the nodes of a Ray cluster. Imported only with --cluster."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cluster.node_code import ROOT
from cluster.nodes import ClusterNodes, is_reserved
from sweeps.on_cluster import node_job
from sweeps.on_cluster.cluster_job import ClusterJob
from sweeps.places import RunJob

NODES_SECONDS = 1.0  # between two looks at the nodes of the cluster
QUIET_SECONDS = 10.0  # without a run and without room, until the console says so


class ClusterPlaces:
    """Starts runs on nodes that have the CPUs and GPUs for them, and the same code and Python as this machine.

    Ray finds the node: what the next run needs is reserved before there is a run.
    """

    def __init__(
        self, address: str, program: Path, cpus: float, gpus: float, most: int | None, print_line: Callable[[str], None]
    ) -> None:
        self._nodes = ClusterNodes(address, node_job, print_line)
        self._program = str(program.relative_to(ROOT))
        self._cpus, self._gpus, self._most = cpus, gpus, most
        self._print_line = print_line
        self._actor = ray.remote(node_job.NodeJob)
        self._next: PlacementGroup | None = None  # what is reserved for the next run, or waits for its room
        self._next_among: list[str] = []  # the nodes where that may be
        self._looked_at = self._had_room_at = time.monotonic()
        self._said_full = False
        self._nodes.look()

    def has_room(self, running: int) -> bool:
        now = time.monotonic()
        if now - self._looked_at >= NODES_SECONDS:
            self._looked_at = now
            self._nodes.look()
        found = (self._most is None or running < self._most) and self._is_reserved()
        if found or running:
            self._had_room_at, self._said_full = now, False
        elif now - self._had_room_at > QUIET_SECONDS and not self._said_full:
            self._said_full = True
            self._print_line(f"waiting for a node with {self._words()} for a run")
        return found

    def make_job(self, folder: Path) -> RunJob:
        group = self._next
        places = placement_group_table(group)["bundles_to_node_id"] if group is not None and self._is_reserved() else {}
        node = self._nodes.nodes.get(places.get(0, ""))
        if group is None or node is None:
            raise OSError(0, "no node has room for it any more")

        def make_actor() -> Any:
            self._next = None  # until now it is there for another run, if this one cannot start
            where = PlacementGroupSchedulingStrategy(group, 0)
            options = self._actor.options(num_cpus=self._cpus, num_gpus=self._gpus, scheduling_strategy=where)
            return options.remote(node.checkout, self._gpus > 0)

        return ClusterJob(
            folder, self._program, node.name, make_actor, lambda: remove_placement_group(group), self._print_line
        )

    @property
    def words(self) -> str:
        most = "as many as fit on the nodes" if self._most is None else f"at most {self._most}"
        return f"each with {self._words()}, {most}"

    def close(self) -> None:
        ray.shutdown()

    def _words(self) -> str:
        gpus = f" and {self._gpus:g} GPUs" if self._gpus else ""
        return f"{self._cpus:g} CPUs{gpus}"

    def _is_reserved(self) -> bool:
        """Whether there is room for a run on a usable node; asks Ray for it if nobody has."""
        usable = sorted(self._nodes.usable)
        if self._next is not None and usable != self._next_among:
            remove_placement_group(self._next)
            self._next = None
        if self._next is None and usable:
            needed = {"CPU": self._cpus, **({"GPU": self._gpus} if self._gpus else {})}
            where = {"ray.io/node-id": f"in({','.join(usable)})"}
            self._next, self._next_among = placement_group([needed], "SPREAD", bundle_label_selector=[where]), usable
        return self._next is not None and is_reserved(self._next)
