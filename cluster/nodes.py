"""A Ray cluster as a process of ours uses it: how it connects, which nodes there are, and calls of actors on them.

`python -m cluster.nodes <address>` tries to connect, and prints one line of JSON: the head's address, or what is wrong.
"""

import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group_table
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster import guarded_program, node_actor
from machine.stop_signals import STOP_SIGNALS
from options.rules import UsageError

NOT_HERE = (
    "no cluster runs on this machine; ray start --head, or ray start --address=<head>:6379 to join one, would be right."
)
ANSWER_SECONDS = 90.0  # after which a node that does not answer has lost its programs
RETRY_SECONDS = 1.0  # between two calls of an actor to which the network is cut


def connect(address: str) -> None:
    """Connect this process to the cluster, through the node of this machine. A ConnectionError says why it cannot."""
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConnectionError(_why(error, address)) from None


def _why(error: Exception, address: str) -> str:
    text = " ".join(str(error.__cause__ or error).split())
    if "any running Ray instance" in text:
        return NOT_HERE
    if "ersion mismatch" in text:
        return f"{text} The same versions on all machines would be right."
    if "resolve node to connect to" in text:
        return f"this machine is none of its nodes; ray start --address={address} would be right."
    return f"its head does not answer ({text[:300]}); a head that runs would be right."


def send_by_value(*modules: ModuleType) -> None:
    """From now on, nodes get what these modules define with what is sent to them, and need no checkout for it."""
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


@dataclass
class Node:
    """A node that is in the cluster."""

    name: str
    examination: Any  # the answer of `examine_node`, as soon as it is there; then None
    checkout: str | None = None  # None until it has been examined, or if it is left out
    cpus: float = 0.0
    gpus: float = 0.0


class ClusterNodes:
    """Connects this process with the cluster, and knows which of its nodes have the same code as it."""

    def __init__(self, address: str, actors: ModuleType, print_line: Callable[[str], None]) -> None:
        """`actors` is the module of the actors that will be started: it is sent to the nodes by value."""
        handlers = {number: signal.getsignal(number) for number in (*STOP_SIGNALS, signal.SIGUSR1)}
        try:
            connect(address)
        except ConnectionError as error:
            raise UsageError(f"--cluster={address} cannot be used: {error}") from None
        for number, handler in handlers.items():  # Ray sets its own
            signal.signal(number, handler)
        send_by_value(node_actor, guarded_program, actors)
        self.own = str(ray.get_runtime_context().get_node_id())
        self.nodes: dict[str, Node] = {}  # by Ray's id of the node
        self._print_line = print_line
        self._version = node_actor.code_version()
        self._examine = ray.remote(num_cpus=0)(node_actor.examine_node)

    @property
    def usable(self) -> dict[str, Node]:
        """Those that can run programs of this checkout, by Ray's id."""
        return {node_id: node for node_id, node in self.nodes.items() if node.checkout is not None}

    @property
    def are_examined(self) -> bool:
        """Whether all nodes have answered."""
        return all(node.examination is None for node in self.nodes.values())

    def look(self) -> None:
        """Learn which nodes there are, and what they answered."""
        nodes = ray.nodes()  # type: ignore[no-untyped-call]
        alive = {node["NodeID"]: node for node in nodes if node["Alive"]}
        for node_id in self.nodes.keys() - alive.keys():
            self._print_line(f"node {self.nodes.pop(node_id).name} has left the cluster")
        for node_id in alive.keys() - self.nodes.keys():
            where = NodeAffinitySchedulingStrategy(node_id, False)
            options = self._examine.options(scheduling_strategy=where, max_retries=0)
            name = unique_name(alive[node_id], {node.name for node in self.nodes.values()})
            self.nodes[node_id] = Node(name, options.remote(str(node_actor.ROOT), self._version))
        for node_id, node in self.nodes.items():
            self._read_answer(node)
            resources = alive[node_id]["Resources"]
            node.cpus, node.gpus = resources.get("CPU", 0), resources.get("GPU", 0)

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


def unique_name(node: Mapping[str, Any], others: Collection[str]) -> str:
    """The name of a node of Ray's. There may be several nodes on one machine."""
    name = str(node.get("NodeName") or node["NodeManagerAddress"])
    numbered = (f"{name}#{number}" for number in range(2, len(others) + 3))
    return name if name not in others else next(each for each in numbered if each not in others)


def is_reserved(group: PlacementGroup) -> bool:
    """Whether what the group needs is reserved now; `PlacementGroup.wait` cannot tell without waiting for a second."""
    return bool(placement_group_table(group)["state"] == "CREATED")


def call_actor(actor: Any, method: str, *arguments: Any) -> Any:
    """What a method of an actor returns.

    While the network to its node is cut, the method is called again, so it must be one that may be called twice.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            left = max(0.0, deadline - time.monotonic())
            return ray.get(getattr(actor, method).remote(*arguments), timeout=left)
        except ActorUnavailableError:
            if time.monotonic() > deadline:
                raise GetTimeoutError from None
            time.sleep(RETRY_SECONDS)


def why_lost(error: RayError, node: str) -> str:
    """What has happened to a program on the node, of which a call has raised this error."""
    if isinstance(error, GetTimeoutError):
        return f"its node {node} did not answer for {ANSWER_SECONDS:g} seconds"
    if isinstance(error, RayTaskError):  # raised by the node's own code, such as by a full disk there
        return f"its node {node} could not go on with it ({one_line(error)})"
    return f"its node {node} has lost it ({type(error).__name__})"


def one_line(error: BaseException) -> str:
    """What an error says in its first line; for one of the node's own code, which Ray wraps, that is its message."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]


def main(address: str) -> None:
    try:
        connect(address)
        answer = {"address": ray.get_runtime_context().gcs_address}
    except ConnectionError as error:
        answer = {"problem": str(error)}
    print(json.dumps(answer), flush=True)  # Ray may end the process before Python does


if __name__ == "__main__":
    main(sys.argv[1])
