"""What the learner takes in from the nodes of a cluster: their rounds, and what it knows of each node."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from option_flags import Config
from replay.row_layout import Rows
from replay.storage import UnrollCodec
from replay.unroll_layout import UnrollLayout
from run_files.metrics import JsonValue
from workers.flow_control import PlayOnDemand

WINDOW = 1.0  # half as long as for local workers, because rounds of nodes are older already
WORKERS_PER_SEAT = 1024  # environments of nodes are numbered as if each node had so many workers
WINDOW_SECONDS = 10.0  # over which speed, lag and bandwidth are averaged
MARK_SECONDS = 1.0
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


class NodeStatistics:
    """All nodes of a run by name."""

    def __init__(self, unroll_length: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._unroll_length = unroll_length
        self._clock = clock
        self._nodes: dict[str, Node] = {}
        self._marked_at = -math.inf

    def named(self, name: str) -> Node:
        """The node of this name, which may be a new one."""
        if name not in self._nodes:
            self._nodes[name] = node = Node(name, seat=len(self._nodes) + 1)
            node.marks.append((self._clock(), Counter()))
        return self._nodes[name]

    def update(self, figures: Iterable[Mapping[str, Any]]) -> None:
        """Figures of the gateway: how nodes are, and how much the counts have grown since it told them before."""
        for told in figures:
            if told["capacity"] or told["node"] in self._nodes:
                node = self.named(told["node"])
                node.workers, node.capacity = told["workers"], told["capacity"]
                node.counts.update({name: told[name] for name in COUNTED_THERE})
                node.round_trip_ms, node.publish_ms = told["round_trip_ms"], told["publish_ms"]

    def all_left(self) -> None:
        for node in self._nodes.values():
            node.capacity = 0

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


class RoundIntake:
    """The rounds of nodes that have arrived, in their order. Unrolls that are too old are refused and counted."""

    def __init__(self, layout: UnrollLayout, config: Config, announce: Callable[[str], None], version: int) -> None:
        self.flow_control = PlayOnDemand(0, window=WINDOW)
        self.nodes = NodeStatistics(layout.unroll_length)
        self.version = version  # of the learner's weights
        self.taken = 0  # rounds, each of them completely
        self._layout = layout
        self._codec = UnrollCodec(layout, 0)
        self._environments = config.workers.envs_per_worker
        self._max_policy_lag = config.cluster.max_policy_lag
        self._announce = announce
        self._announced: set[str] = set()  # nodes
        self._rounds: deque[tuple[str, list[bytes]]] = deque()  # nodes, and their compressed unrolls
        self._unrolls_taken = 0  # of the oldest round
        self._row: Rows = np.empty(layout.nbytes, np.uint8)

    @property
    def ready(self) -> int:
        """Rounds that are not taken completely."""
        return len(self._rounds)

    def deliver(self, node: str, unrolls: list[bytes]) -> None:
        """Add a round: compressed unrolls, at least one."""
        self._rounds.append((node, unrolls))
        self.flow_control.deliver((0, 0))

    def take_from_round(self, limit: int) -> Iterator[Rows]:
        """At most `limit` unrolls `[nbytes]` of the oldest round; each is valid until the next one is taken."""
        name, unrolls = self._rounds[0]
        node, given = self.nodes.named(name), 0
        while given < limit and self._unrolls_taken < len(unrolls):
            self._codec.decode(unrolls[self._unrolls_taken], self._row)
            self._unrolls_taken += 1
            self.flow_control.unrolls_taken(self._unrolls_taken, len(unrolls))
            if self._is_accepted(node):
                given += 1
                yield self._row
        if self._unrolls_taken == len(unrolls):
            self._rounds.popleft()
            self._unrolls_taken = 0
            self.taken += 1

    def _is_accepted(self, node: Node) -> bool:
        """Whether the unroll in the row is new enough. Its environment gets a number of its own in the run."""
        lag = self.version - int(self._layout.array(self._row, "weight_version"))
        if self._max_policy_lag and lag > self._max_policy_lag:
            node.counts.update(refused=1)
            if node.name not in self._announced:
                self._announced.add(node.name)
                self._announce(
                    f"node {node.name} sends unrolls that are more than --max_policy_lag={self._max_policy_lag} "
                    "updates old; they are refused and counted"
                )
            return False
        node.counts.update(accepted=1, lag=lag)
        self._layout.array(self._row, "environment_id")[...] += node.seat * WORKERS_PER_SEAT * self._environments
        return True
