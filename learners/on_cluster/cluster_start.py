"""Starts learners on the nodes of a Ray cluster, as torchrun would. Imported only with --cluster."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cluster.programs.nodes import ClusterNodes
from learners.launcher import END_SECONDS, StartStoppedError
from learners.on_cluster import node_learner
from learners.on_cluster.checkpoint_copies import copy_checkpoint
from learners.on_cluster.commands import Commands
from learners.on_cluster.node_learner import Address
from learners.on_cluster.shares_of_nodes import Room, Seat, choose_seats, most_learners
from learners.on_cluster.started_on_nodes import LOST, LearnerGoneError, SeatedLearner, StartedOnNodes
from learners.rank import LIFELINE, NEWS
from options.command_line import flag_words
from options.rules import UsageError
from workers.failures import RunFailedError

LOOK_SECONDS = 0.5  # between two looks at the nodes
EXAMINE_SECONDS = 120.0  # in which nodes must say whether they have the same code
FIRST_ROOM_SECONDS = 5.0  # to wait for room: Ray reports late what has become free
ROOM_SECONDS = 300.0  # the same for a further start, when a node may be coming back
QUIET_SECONDS = 10.0  # without room, until the console says so
RESERVE_SECONDS = 20.0


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
        try:
            self._wait_for_seats(FIRST_ROOM_SECONDS, lambda: False)
        except NoRoomError as error:
            raise UsageError(self._no_room(error.most)) from None
        self._commands = Commands()

    def __call__(self, flags: Mapping[str, Any], is_stopping: Callable[[], bool]) -> StartedOnNodes:
        deadline, group = time.monotonic() + ROOM_SECONDS, None
        while group is None:
            try:
                seats = self._wait_for_seats(deadline - time.monotonic(), is_stopping)
            except NoRoomError as error:
                raise RunFailedError(self._no_room(error.most)) from None
            # Another program may have been faster, or a node has ended and Ray does not know it yet.
            group = self._reserve(seats, is_stopping)
            if group is None and time.monotonic() > deadline:
                raise RunFailedError(
                    f"nodes for --learners={self._learners} could not be reserved within {ROOM_SECONDS:g} seconds; "
                    "ray status shows what uses them."
                )
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

    def _wait_for_seats(self, seconds: float, is_stopping: Callable[[], bool]) -> list[Seat]:
        """The seats, once all nodes are examined and there is room; raises a NoRoomError after so many seconds."""
        begun, has_said = time.monotonic(), False
        while not is_stopping():
            self._nodes.look()
            waited = time.monotonic() - begun
            if self._nodes.are_examined or waited > EXAMINE_SECONDS:
                usable = {node_id: node for node_id, node in self._nodes.nodes.items() if node.checkout is not None}
                has_gpus = any(node.all_gpus for node in usable.values())
                self._need_gpus = self._device.startswith("cuda") or (self._device == "auto" and has_gpus)
                rooms = [
                    Room(node_id, int(node.all_cpus), int(node.free_gpus))
                    for node_id, node in usable.items()
                    if node.free_cpus == node.all_cpus
                ]
                most = most_learners(rooms, self._need_gpus)
                if most >= self._learners:
                    return choose_seats(rooms, self._learners, self._nodes.own, self._need_gpus)
                if waited > seconds:
                    raise NoRoomError(most)
                if waited > QUIET_SECONDS and not has_said:
                    has_said = True
                    say(f"waiting for nodes with room for {self._learners} learners; there is room for {most}")
            time.sleep(LOOK_SECONDS)
        raise StartStoppedError

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

    def _reserve(self, seats: Sequence[Seat], is_stopping: Callable[[], bool]) -> PlacementGroup | None:
        """Reserve all seats at once: of two runs, one gets all of its seats. None if that is not possible now."""
        gpus = {"GPU": 1.0} if self._need_gpus else {}
        group: PlacementGroup = placement_group(
            [{"CPU": float(seat.cpus), **gpus} for seat in seats],
            strategy="SPREAD",
            bundle_label_selector=[{"ray.io/node-id": seat.node} for seat in seats],
        )
        begun = time.monotonic()
        while not is_stopping() and time.monotonic() - begun < RESERVE_SECONDS:
            if group.wait(1):
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
