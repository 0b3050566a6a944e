"""What the learner knows of each node: what was accepted and refused of it, and figures for reports."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from run_files.metrics import JsonValue

WINDOW_SECONDS = 10.0  # over which speed, lag and bandwidth are averaged
MARK_SECONDS = 1.0
MOST_LEFT = 20  # nodes that have left and are still shown
COUNTED_THERE = ("restarts", "received_bytes", "sent_bytes")  # by the gateway, which tells how much they have grown


@dataclass
class Node:
    """One node since it first joined, over all of its players."""

    name: str
    seat: int  # from 1; each node of a run has its own
    workers: int = 0
    capacity: int = 0  # rounds that may be asked of it; 0: it does not play now
    counts: Counter[str] = field(default_factory=Counter)  # accepted, refused, lag, and those of the gateway
    round_trip_ms: float | None = None
    publish_ms: float | None = None
    marks: deque[tuple[float, Counter[str]]] = field(default_factory=deque)  # counts of the latest seconds

    def update(self, told: Mapping[str, Any]) -> None:
        """Take figures of the gateway."""
        self.counts.update({name: told[name] for name in COUNTED_THERE})
        self.round_trip_ms, self.publish_ms = told["round_trip_ms"], told["publish_ms"]

    def accept(self, lag: int) -> None:
        self.counts.update(accepted=1, lag=lag)

    def refuse(self, unrolls: int) -> None:
        self.counts.update(refused=unrolls)


class NodeStatistics:
    """All nodes of a run by name."""

    def __init__(self, unroll_length: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._unroll_length = unroll_length
        self._clock = clock
        self._nodes: dict[str, Node] = {}
        self._joins = 0  # of nodes that were not there before
        self._marked_at = -math.inf

    def joined(self, name: str, workers: int, capacity: int) -> None:
        """A player has started."""
        node = self._nodes.pop(name, None)
        if node is None:
            self._joins += 1
            node = Node(name, seat=self._joins)
        self._nodes[name] = node  # the newest nodes are the last
        node.workers, node.capacity = workers, capacity
        node.marks.append((self._clock(), node.counts.copy()))
        left = [other.name for other in self._nodes.values() if not other.capacity]
        for gone in left[: max(0, len(left) - MOST_LEFT)]:  # or machines that come and go for weeks would fill memory
            del self._nodes[gone]

    def left(self, name: str) -> None:
        if name in self._nodes:
            self._nodes[name].capacity = 0

    def all_left(self) -> None:
        for node in self._nodes.values():
            node.capacity = 0

    def update(self, figures: Iterable[Mapping[str, Any]]) -> None:
        """Figures of the gateway: how much its counts have grown since it told them before."""
        for told in figures:
            if told["node"] in self._nodes:
                self._nodes[told["node"]].update(told)

    def get(self, name: str) -> Node | None:
        """None if it left long ago."""
        return self._nodes.get(name)

    @property
    def capacity(self) -> int:
        """Rounds that may be in flight from all nodes together."""
        return sum(node.capacity for node in self._nodes.values())

    def tick(self) -> None:
        """Note the counts once a second."""
        now = self._clock()
        if now - self._marked_at < MARK_SECONDS:
            return
        self._marked_at = now
        for node in self._nodes.values():
            node.marks.append((now, node.counts.copy()))
            while len(node.marks) > 1 and now - node.marks[1][0] >= WINDOW_SECONDS:
                node.marks.popleft()

    def figures(self) -> list[dict[str, JsonValue]]:
        """Each node's figures by their names in metrics.jsonl; those by time are means of the latest seconds."""
        return [self._figures_of(node) for node in self._nodes.values()]

    def _figures_of(self, node: Node) -> dict[str, JsonValue]:
        since, before = node.marks[0]
        seconds = max(self._clock() - since, 1e-9)
        counts = node.counts
        grown = {name: counts[name] - before[name] for name in counts}
        unrolls = grown.get("accepted", 0)
        return {
            "node": node.name,
            "alive": node.capacity > 0,
            "workers": node.workers,
            "agent_steps": counts["accepted"] * self._unroll_length,
            "steps_per_second": unrolls * self._unroll_length / seconds,
            "unrolls_accepted": counts["accepted"],
            "unrolls_refused": counts["refused"],
            "policy_lag": grown["lag"] / unrolls if unrolls else None,
            "restarts": counts["restarts"],
            "received_bytes_per_second": grown.get("received_bytes", 0) / seconds,
            "sent_bytes_per_second": grown.get("sent_bytes", 0) / seconds,
            "round_trip_ms": node.round_trip_ms,
            "publish_ms": node.publish_ms,
        }
