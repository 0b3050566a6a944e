"""What the learner knows of each node: its name, what was accepted and refused of it, and figures for reports."""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from run_files.metrics import JsonValue

WINDOW_SECONDS = 10.0  # over which speed, lag and bandwidth are averaged
MARK_SECONDS = 1.0
MOST_LEFT = 20  # nodes that have left and are still shown
COUNTERS = ("restarts", "received_bytes", "sent_bytes")


@dataclass
class Node:
    """The counters of one node since it joined, over all of its players."""

    name: str
    seat: int
    workers: int
    alive: bool = True
    capacity: int = 0  # rounds that may be asked of it
    agent_steps: int = 0
    accepted: int = 0
    refused: int = 0
    lag_sum: int = 0
    gateway: dict[str, Any] = field(default_factory=dict)  # the newest figures that the gateway sent
    before: dict[str, int] = field(default_factory=dict)  # counters from earlier gateways, and before it left
    marks: deque["_Mark"] = field(default_factory=deque)  # of the latest seconds, oldest first

    def counter(self, name: str) -> int:
        return self.before.get(name, 0) + int(self.gateway.get(name, 0))

    def keep_counters(self) -> None:
        """What the gateway counts for this node begins at zero again."""
        self.before = {name: self.counter(name) for name in COUNTERS}
        self.gateway = {}


class _Mark(NamedTuple):
    """A node's counters at one moment."""

    seconds: float
    agent_steps: int
    accepted: int
    lag_sum: int
    received: int
    sent: int


class NodeStatistics:
    """All nodes of a run by name, and which of them each player's number belongs to."""

    def __init__(self, unroll_length: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._unroll_length = unroll_length
        self._clock = clock
        self._nodes: dict[str, Node] = {}
        self._players: dict[int, Node] = {}
        self._marked_at = -math.inf

    def joined(self, described: Mapping[str, Any]) -> Node:
        """A player has started; `described` is from the gateway."""
        name = str(described["name"])
        node = self._nodes.pop(name, None)  # it moves to the end: the newest nodes are the last
        if node is None:
            node = Node(name, int(described["seat"]), int(described["workers"]))
        self._nodes[name] = node
        node.seat, node.workers = int(described["seat"]), int(described["workers"])
        node.alive, node.capacity = True, int(described["capacity"])
        if node.gateway and node.gateway["link"] != described["link"]:  # it had left the cluster: all counts from zero
            node.keep_counters()
        node.gateway = dict(described)
        node.marks.append(_mark(node, self._clock()))
        self._players[int(described["number"])] = node
        self._forget_old()
        return node

    def left(self, described: Mapping[str, Any]) -> None:
        node = self._players.get(int(described["number"]))
        if node is not None:
            node.alive, node.capacity, node.gateway = False, 0, dict(described)

    def all_left(self) -> None:
        """The gateway has ended; the next one counts from zero."""
        for node in self._nodes.values():
            node.alive, node.capacity = False, 0
            node.keep_counters()

    def update(self, figures: Sequence[Mapping[str, Any]]) -> None:
        for described in figures:
            node = self._players.get(int(described["number"]))
            if node is not None and node.alive:
                node.gateway = dict(described)

    def of_player(self, number: int) -> Node | None:
        return self._players.get(number)

    def accept(self, node: Node, lag: int) -> None:
        node.accepted += 1
        node.agent_steps += self._unroll_length
        node.lag_sum += lag

    @property
    def alive(self) -> list[Node]:
        return [node for node in self._nodes.values() if node.alive]

    @property
    def capacity(self) -> int:
        """Rounds that may be in flight from all nodes together."""
        return sum(node.capacity for node in self._nodes.values())

    def figures(self) -> list[dict[str, JsonValue]]:
        """Each node's figures by their names in metrics.jsonl; those by time are means of the latest seconds."""
        now = self._clock()
        return [self._figures_of(node, now) for node in self._nodes.values()]

    def tick(self) -> None:
        """Note the counters once a second."""
        now = self._clock()
        if now - self._marked_at < MARK_SECONDS:
            return
        self._marked_at = now
        for node in self._nodes.values():
            node.marks.append(_mark(node, now))
            while len(node.marks) > 1 and now - node.marks[1].seconds >= WINDOW_SECONDS:
                node.marks.popleft()

    def _figures_of(self, node: Node, seconds: float) -> dict[str, JsonValue]:
        now = _mark(node, seconds)
        before = node.marks[0] if node.marks else now
        seconds = max(now.seconds - before.seconds, 1e-9)
        unrolls = now.accepted - before.accepted
        return {
            "node": node.name,
            "alive": node.alive,
            "workers": node.workers,
            "agent_steps": node.agent_steps,
            "steps_per_second": (now.agent_steps - before.agent_steps) / seconds,
            "unrolls_accepted": node.accepted,
            "unrolls_refused": node.refused,
            "policy_lag": (now.lag_sum - before.lag_sum) / unrolls if unrolls else None,
            "restarts": node.counter("restarts"),
            "received_bytes_per_second": (now.received - before.received) / seconds,
            "sent_bytes_per_second": (now.sent - before.sent) / seconds,
            "round_trip_ms": node.gateway.get("round_trip_ms"),
            "publish_ms": node.gateway.get("publish_ms"),
        }

    def _forget_old(self) -> None:
        """A cluster whose machines come and go for weeks must not fill the memory."""
        left = [name for name, node in self._nodes.items() if not node.alive]
        for name in left[: max(0, len(left) - MOST_LEFT)]:
            gone = self._nodes.pop(name)
            self._players = {number: node for number, node in self._players.items() if node is not gone}


def _mark(node: Node, now: float) -> _Mark:
    received, sent = node.counter("received_bytes"), node.counter("sent_bytes")
    return _Mark(now, node.agent_steps, node.accepted, node.lag_sum, received, sent)
