"""Starts learners on the nodes of a Ray cluster, as torchrun would, and decides which node gets how many.

Imported only with --cluster.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cluster.nodes import ClusterNodes, is_reserved
from learners.launcher import END_SECONDS, StartStoppedError
from learners.on_cluster import node_learner
from learners.on_cluster.node_learner import Address, copy_checkpoint
from learners.on_cluster.started_on_nodes import LOST, Commands, LearnerGoneError, SeatedLearner, StartedOnNodes
from learners.rank import LIFELINE, NEWS
from options.command_line import flag_words
from options.rules import UsageError
from processes.failures import RunFailedError

LOOK_SECONDS = 0.5  # between two looks at the nodes
EXAMINE_SECONDS = 120.0  # in which nodes must say whether they have the same code
FIRST_ROOM_SECONDS = 5.0  # to wait for room: what another run has used may become free in a moment
ROOM_SECONDS = 300.0  # the same for a further start, when a node may be coming back
QUIET_SECONDS = 10.0  # without room, until the console says so
TRY_SECONDS = 1.0  # until a node that has not been reserved is taken for one that something else uses
RESERVE_SECONDS = 5


class Room(NamedTuple):
    """A node that nothing else uses."""

    node: str
    cpus: int
    gpus: int

    def most(self, need_gpus: bool) -> int:
        """Learners that fit."""
        return min(self.cpus, self.gpus) if need_gpus else self.cpus


class Seat(NamedTuple):
    """The place of one learner."""

    node: str
    cpus: int


Reserved = tuple[list[Seat], PlacementGroup]


class NoRoomError(Exception):
    """Fewer learners fit than are wanted."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most


class ClusterStart:
    """Called for each start of all learners. Nodes get learners only if nothing else uses them."""

    def __init__(self, address: str, learners: int, device: str) -> None:
        """Connect with the cluster. Raises a UsageError if it has no room for so many learners."""
        self._learners = learners
        self._device = device
        self._nodes = ClusterNodes(address, node_learner, say)
        self._actor = ray.remote(node_learner.NodeLearner)
        self._need_gpus = False
        self._reserved: Reserved | None = None  # for the first start
        try:
            self._reserved = self._reserve_seats(FIRST_ROOM_SECONDS, lambda: False)
        except NoRoomError as error:
            raise UsageError(self._no_room(error.most)) from None
        self._commands = Commands()

    def __call__(self, flags: Mapping[str, Any], is_stopping: Callable[[], bool]) -> StartedOnNodes:
        reserved, self._reserved = self._reserved, None
        try:
            seats, group = reserved or self._reserve_seats(ROOM_SECONDS, is_stopping)
        except NoRoomError as error:
            raise RunFailedError(self._no_room(error.most)) from None
        started = StartedOnNodes(self._make_actors(seats, group), group, self._commands)
        try:
            self._start(flags, seats, started.learners)
        except BaseException:
            started.close()
            raise
        return started

    def close(self) -> None:
        """The run has ended."""
        self._commands.close()

    def _reserve_seats(self, seconds: float, is_stopping: Callable[[], bool]) -> Reserved:
        """The seats, once all nodes are examined and there is room; raises a NoRoomError after so many seconds."""
        begun, has_said = time.monotonic(), False
        while not is_stopping():
            self._nodes.look()
            waited = time.monotonic() - begun
            if self._nodes.are_examined or waited > EXAMINE_SECONDS:
                rooms = self._free_rooms()
                most = most_learners(rooms, self._need_gpus)
                if most >= self._learners:
                    seats = choose_seats(rooms, self._learners, self._nodes.own, self._need_gpus)
                    group = self._reserve(seats)
                    if group is not None:
                        return seats, group
                if waited > seconds:
                    raise NoRoomError(most)
                if waited > QUIET_SECONDS and not has_said:
                    has_said = True
                    say(f"waiting for nodes with room for {self._learners} learners; there is room for {most}")
            time.sleep(LOOK_SECONDS)
        raise StartStoppedError

    def _free_rooms(self) -> list[Room]:
        """The usable nodes that nothing else uses: those that could be reserved whole, which is tried and undone."""
        usable = self._nodes.usable
        self._need_gpus = self._device.startswith("cuda") or (
            self._device == "auto" and any(node.gpus for node in usable.values())
        )
        wholes = {
            node_id: placement_group(
                [{"CPU": node.cpus, **({"GPU": node.gpus} if self._need_gpus and node.gpus else {})}],
                bundle_label_selector=[{"ray.io/node-id": node_id}],
            )
            for node_id, node in usable.items()
            if node.cpus
        }
        deadline, free = time.monotonic() + TRY_SECONDS, set[str]()
        while len(free) < len(wholes) and time.monotonic() < deadline:
            free |= {node_id for node_id, group in wholes.items() if is_reserved(group)}
            time.sleep(TRY_SECONDS / 50)
        for group in wholes.values():
            remove_placement_group(group)
        return [
            Room(node_id, int(usable[node_id].cpus), int(usable[node_id].gpus)) for node_id in wholes if node_id in free
        ]

    def _no_room(self, most: int) -> str:
        kind = "GPUs" if self._need_gpus else "CPUs"
        right = (
            f"--learners={most} or fewer would be right" if most > 1 else "more nodes would be right, or no --cluster"
        )
        if self._need_gpus and self._device == "auto":
            right += ", or --device=cpu"
        return (
            f"--learners={self._learners} needs as many {kind} on nodes that nothing else uses, and the cluster has "
            f"{most}; {right}."
        )

    def _reserve(self, seats: Sequence[Seat]) -> PlacementGroup | None:
        """Reserve all seats at once: of two runs, one gets all of its seats. None if another one was faster."""
        gpus = {"GPU": 1.0} if self._need_gpus else {}
        group: PlacementGroup = placement_group(
            [{"CPU": float(seat.cpus), **gpus} for seat in seats],
            strategy="SPREAD",
            bundle_label_selector=[{"ray.io/node-id": seat.node} for seat in seats],
        )
        if group.wait(RESERVE_SECONDS):  # whole seconds only
            return group
        remove_placement_group(group)
        return None

    def _make_actors(self, seats: Sequence[Seat], group: PlacementGroup) -> list[SeatedLearner]:
        learners = []
        for rank, seat in enumerate(seats):
            node = self._nodes.nodes[seat.node]
            actor = self._actor.options(
                num_cpus=seat.cpus,
                num_gpus=1 if self._need_gpus else 0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, rank),
            ).remote(node.checkout, self._need_gpus, str(Path.cwd()))
            learners.append(SeatedLearner(rank, node.name, actor))
        return learners

    def _start(self, flags: Mapping[str, Any], seats: Sequence[Seat], learners: Sequence[SeatedLearner]) -> None:
        """Start main.py as each learner. If one cannot be started, all are lost, and the launcher starts them again."""
        try:
            addresses = [learner.call("address") for learner in learners]
            if url := flags.get("load_model_url"):
                copy_checkpoint(str(url), [learner.call for learner in learners])
            for learner, variables in zip(learners, rank_variables(seats, addresses, self._need_gpus), strict=True):
                learner.call("start", flag_words(flags), variables, LIFELINE, NEWS, END_SECONDS)
        except LearnerGoneError as error:
            say(str(error))
            for learner in learners:
                learner.exit_code = LOST
            return
        for node_id in dict.fromkeys(seat.node for seat in seats):
            ranks = [str(rank) for rank, seat in enumerate(seats) if seat.node == node_id]
            cpus = next(seat.cpus for seat in seats if seat.node == node_id)
            several = f"learners {', '.join(ranks)}, each" if len(ranks) > 1 else f"learner {ranks[0]}"
            words = f"{cpus} CPU{'s' * (cpus > 1)}{' and a GPU' * self._need_gpus}"
            say(f"node {self._nodes.nodes[node_id].name}: {several} with {words}")
        if seats[0].node != self._nodes.own:
            say(f"this machine has no room for a learner: the run's folder is on node {learners[0].node}")


def most_learners(rooms: Sequence[Room], need_gpus: bool) -> int:
    return sum(room.most(need_gpus) for room in rooms)


def choose_seats(rooms: Sequence[Room], learners: int, own: str, need_gpus: bool) -> list[Seat]:
    """The seats by rank; those of a node follow each other. There must be room for all.

    The first learner is on the node `own`, if there is room: it writes the run's folder. Each further one goes where
    it has the most CPUs, because all learners wait for the slowest one.
    """
    rooms = sorted(rooms, key=lambda room: room.node != own)
    counts: Counter[str] = Counter()
    for _ in range(learners):
        able = [room for room in rooms if counts[room.node] < room.most(need_gpus)]
        if counts or able[0].node != own:
            able.sort(key=lambda room: -room.cpus / (counts[room.node] + 1))
        counts[able[0].node] += 1
    return [Seat(room.node, room.cpus // counts[room.node]) for room in rooms for _ in range(counts[room.node])]


def rank_variables(seats: Sequence[Seat], addresses: Sequence[Address], have_gpus: bool) -> list[dict[str, str]]:
    """The environment variables of each learner's rank, as torchrun sets them."""
    on_node = Counter(seat.node for seat in seats)
    seen: Counter[str] = Counter()
    found = []
    for rank, seat in enumerate(seats):
        variables = {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(seats)),
            "LOCAL_RANK": str(seen[seat.node]),
            "LOCAL_WORLD_SIZE": str(on_node[seat.node]),
            "MASTER_ADDR": addresses[0].host,
            "MASTER_PORT": str(addresses[0].port),
        }
        if have_gpus:  # all learners of a node see the same ones, and choose by their local rank
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(
                address.gpus for address, other in zip(addresses, seats, strict=True) if other.node == seat.node
            )
        seen[seat.node] += 1
        found.append(variables)
    return found


def say(text: str) -> None:
    with suppress(OSError):  # nobody reads the output any more
        print(text, flush=True)
