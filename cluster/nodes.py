"""A Ray cluster as a process of ours uses it: how it connects, and which nodes there are.

`python -m cluster.nodes <address>` tries to connect, and prints what is wrong, if anything.
"""

import logging
import math
import signal
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster import node_actor
from machine.stop_signals import STOP_SIGNALS
from options.rules import UsageError

EXAMINE_AGAIN_SECONDS = 30.0  # after which a node that was left out is examined again


def connect(address: str) -> None:
    """Connect this process to the cluster, through the node of this machine. A UsageError says why it cannot."""
    handlers = {number: signal.getsignal(number) for number in (*STOP_SIGNALS, signal.SIGUSR1)}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UsageError(_why(error, address)) from None
    for number, handler in handlers.items():  # Ray sets its own
        signal.signal(number, handler)


def _why(error: Exception, address: str) -> str:
    text = " ".join(str(error.__cause__ or error).split())
    if "any running Ray instance" in text:
        return (
            "no cluster runs on this machine; ray start --head, or ray start --address=<head>:6379 to join one, would "
            "be right."
        )
    if "ersion mismatch" in text:
        return f"{text} The same versions on all machines would be right."
    if "resolve node to connect to" in text:
        return f"this machine is no node of it; ray start --address={address} would be right."
    return f"its head does not answer ({text[:300]}); a head that runs would be right."


@dataclass
class Node:
    """A node that is in the cluster."""

    name: str
    examination: Any = None  # the answer of `examine_node`, until it is there
    examined_at: float = -math.inf
    checkout: str | None = None  # None until it has been examined, or if it is left out
    problem: str | None = None  # why it is left out
    cpus: float = 0.0


class ClusterNodes:
    """Knows which nodes of the cluster have the same code as this process, and starts actors there."""

    def __init__(self, address: str, version: str) -> None:
        """Connect with the cluster. `version` is that of the code. UsageError as from `connect`."""
        connect(address)
        # Nodes get what this module defines with what is sent to them, and need no checkout for it.
        cloudpickle.register_pickle_by_value(node_actor)  # type: ignore[no-untyped-call]
        self.own = str(ray.get_runtime_context().get_node_id())
        self.nodes: dict[str, Node] = {}  # by Ray's id of the node
        self.actor: Any = ray.remote(node_actor.NodeActor)  # made once, because Ray keeps each one that is made
        self._examine = ray.remote(num_cpus=0, max_retries=0)(node_actor.examine_node)
        self._version = version

    @property
    def usable(self) -> dict[str, Node]:
        """Those that can run programs of this checkout, by Ray's id."""
        return {node_id: node for node_id, node in self.nodes.items() if node.checkout is not None}

    def look(self) -> list[str]:
        """Learn which nodes there are, and what they answered; return what is new, in sentences for the user."""
        alive = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}  # type: ignore[no-untyped-call]
        gone = self.nodes.keys() - alive.keys()
        said = [f"node {self.nodes.pop(node_id).name} has left the cluster" for node_id in gone]
        for node_id in alive.keys() - self.nodes.keys():
            self.nodes[node_id] = Node(unique_name(alive[node_id], {node.name for node in self.nodes.values()}))
        for node_id, node in self.nodes.items():
            node.cpus = alive[node_id]["Resources"].get("CPU", 0)
            said += self._examined(node_id, node)
        return said

    def _examined(self, node_id: str, node: Node) -> list[str]:
        """Read the answer of a node, and examine it if it has not been, or again if it was left out."""
        if node.examination is None:
            if node.checkout is None and time.monotonic() - node.examined_at > EXAMINE_AGAIN_SECONDS:
                there = NodeAffinitySchedulingStrategy(node_id, soft=False)
                examine = self._examine.options(scheduling_strategy=there)
                node.examination = examine.remote(str(node_actor.ROOT), self._version)
        elif ray.wait([node.examination], timeout=0)[0]:
            before = node.problem
            try:
                checkout, node.problem = ray.get(node.examination)
            except RayError as error:
                checkout, node.problem = None, f"it cannot run anything ({type(error).__name__})"
            node.checkout = checkout if node.problem is None else None
            node.examination, node.examined_at = None, time.monotonic()
            if node.problem not in (None, before):
                return [f"node {node.name} is left out: {node.problem}"]
        return []


def unique_name(node: Mapping[str, Any], others: Collection[str]) -> str:
    """The name of a node of Ray's. There may be several nodes on one machine."""
    name = str(node.get("NodeName") or node["NodeManagerAddress"])
    numbered = (f"{name}#{number}" for number in range(2, len(others) + 3))
    return name if name not in others else next(each for each in numbered if each not in others)


def one_line(error: BaseException) -> str:
    """What an error says in its first line; for one of the node's own code, which Ray wraps, that is its message."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]


def main(address: str) -> None:
    problem = ""
    try:
        connect(address)
    except UsageError as error:
        problem = str(error)
    print(f"{node_actor.ANSWER}{problem}", flush=True)  # Ray may end the process before Python does


if __name__ == "__main__":
    main(sys.argv[1])
