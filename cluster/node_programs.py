"""Programs on the nodes of a Ray cluster, for the process that starts them: room for them, and calls of them there."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cluster.nodes import ClusterNodes, Node, one_line

ANSWER_SECONDS = 90.0  # after which a node that does not answer has lost its programs
RETRY_SECONDS = 1.0  # between two calls of an actor to which the network is cut
NODE_ID = "ray.io/node-id"


class ProgramLostError(Exception):
    """Says what has happened to a program on a node."""


class NodeProgram:
    """A program on a node. An actor there owns the object that has started it, a GuardedProgram."""

    def __init__(self, actor: Any, node: str) -> None:
        self.node = node
        self._actor = actor

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method of the object returns. Raises a ProgramLostError.

        While the network to its node is cut, the method is called again, so it must be one that may be called twice.
        """
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                return ray.get(self.send(method, *arguments), timeout=max(0.0, deadline - time.monotonic()))
            except RayError as error:
                if not isinstance(error, ActorUnavailableError) or time.monotonic() > deadline:
                    raise ProgramLostError(self._why_lost(error)) from error
                time.sleep(RETRY_SECONDS)

    def send(self, method: str, *arguments: Any) -> Any:
        """Call a method without waiting for what it returns, which Ray has in the end."""
        return self._actor.call.remote(method, *arguments)

    def end(self) -> None:
        """End the actor, and with it the program."""
        with suppress(RayError):
            ray.kill(self._actor)

    def _why_lost(self, error: RayError) -> str:
        if isinstance(error, GetTimeoutError | ActorUnavailableError):
            return f"its node {self.node} did not answer for {ANSWER_SECONDS:g} seconds"
        if isinstance(error, RayTaskError):  # raised by the node's own code, such as by a full disk there
            return f"its node {self.node} could not go on with it ({one_line(error)})"
        return f"its node {self.node} has lost it ({type(error).__name__})"


class Room:
    """Room for programs on nodes with the same code: Ray reserves what all of them need, or nothing."""

    def __init__(self, cluster: ClusterNodes) -> None:
        self.needs: Sequence[Mapping[str, float]] = []  # of each program
        self.nodes: list[Node] = []  # where each program has its room, once it is reserved
        self._cluster = cluster
        self._asked: Any = None  # for what Ray was asked
        self._group: PlacementGroup | None = None

    def is_reserved(self, needs: Sequence[Mapping[str, float]], first_on: str | None = None) -> bool:
        """Whether there is room for programs that need so much of CPUs and GPUs, by Ray's names.

        The first one gets its room on the node with the id `first_on`. Ray is asked again when any of this changes, or
        the usable nodes do.
        """
        usable = sorted(self._cluster.usable)
        if self._asked != (needs, first_on, usable):
            self.release()
            self._asked, self.needs = (needs, first_on, usable), needs
            if usable:
                places = [{NODE_ID: f"in({','.join(usable)})"} for _ in needs]
                if first_on is not None:
                    places[0] = {NODE_ID: first_on}
                self._group = placement_group([dict(each) for each in needs], "SPREAD", bundle_label_selector=places)
        if self._group is None:
            return False
        table = placement_group_table(self._group)  # `PlacementGroup.wait` cannot tell without waiting for a second
        if table["state"] != "CREATED":
            return False
        self.nodes = [self._cluster.nodes[table["bundles_to_node_id"][index]] for index in range(len(needs))]
        return True

    def start(self, index: int, place: str | None = None) -> NodeProgram:
        """Start the actor of a program in its room. `place`: see `GuardedProgram`."""
        assert self._group is not None, "nothing is reserved"
        needs, node = self.needs[index], self.nodes[index]
        actor = self._cluster.actor.options(
            num_cpus=needs["CPU"],
            num_gpus=needs.get("GPU", 0),
            scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, index),
        ).remote(node.checkout, "cluster.guarded_program", "GuardedProgram", "GPU" in needs, place)
        return NodeProgram(actor, node.name)

    def release(self) -> None:
        if self._group is not None:
            remove_placement_group(self._group)
            self._group = None
