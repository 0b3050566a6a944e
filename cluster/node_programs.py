"""Programs on the nodes of a Ray cluster, for the process that starts them: room for them, and calls of them there."""

import time
from collections.abc import Mapping
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
                answer = self._actor.call.remote(method, *arguments)
                return ray.get(answer, timeout=max(0.0, deadline - time.monotonic()))
            except RayError as error:
                if not isinstance(error, ActorUnavailableError) or time.monotonic() > deadline:
                    raise ProgramLostError(self._why_lost(error)) from error
                time.sleep(RETRY_SECONDS)

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
    """Room for a program on a node with the same code, reserved before there is a program."""

    def __init__(self, cluster: ClusterNodes, needs: Mapping[str, float]) -> None:
        """`needs`: CPUs and GPUs, by Ray's names."""
        self._cluster = cluster
        self._needs = dict(needs)
        self._usable: list[str] = []  # the nodes that Ray was asked for
        self._group: PlacementGroup | None = None
        self._node: Node | None = None  # where the room is

    def is_reserved(self) -> bool:
        """Whether there is room. Ray is asked again when the usable nodes change."""
        usable = sorted(self._cluster.usable)
        if self._usable != usable:
            self.release()
            self._usable = usable
            if usable:
                place = {NODE_ID: f"in({','.join(usable)})"}
                self._group = placement_group([self._needs], "SPREAD", bundle_label_selector=[place])
        if self._group is None:
            return False
        table = placement_group_table(self._group)  # `PlacementGroup.wait` cannot tell without waiting for a second
        if table["state"] != "CREATED":
            return False
        self._node = self._cluster.nodes[table["bundles_to_node_id"][0]]
        return True

    def start(self) -> NodeProgram:
        """Start the actor of a program in the room."""
        assert self._group is not None and self._node is not None, "nothing is reserved"
        actor = self._cluster.actor.options(
            num_cpus=self._needs["CPU"],
            num_gpus=self._needs.get("GPU", 0),
            scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, 0),
        ).remote(self._node.checkout, "cluster.guarded_program", "GuardedProgram", "GPU" in self._needs)
        return NodeProgram(actor, self._node.name)

    def release(self) -> None:
        if self._group is not None:
            remove_placement_group(self._group)
            self._group = None
