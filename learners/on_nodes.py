"""Learners on the nodes of a Ray cluster: which node gets how many, and how they are started, watched and ended.

Imported only with --cluster.
"""

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but not in its list of names

from cluster.node_actor import code_version
from cluster.nodes import ClusterNodes, call_actor, is_reserved, why_lost
from cluster.run_state import COMMAND_SECONDS, RunState
from learners.launcher import MOST_ERRORS, POLL_SECONDS, rank_variables, say, write
from learners.node_learner import State, newest_checkpoint
from options.command_line import flag_words
from options.rules import UsageError
from processes.pool import RunFailedError

LOST = -1  # the exit code of a learner whose node does not tell it
CLOSE_SECONDS = 5.0
COMMANDS = {"save": signal.SIGUSR1, "stop": signal.SIGTERM}  # to this process, which passes them on to all learners
LOOK_SECONDS = 0.5  # on average between two looks at the nodes: two runs that hinder each other fall out of step
EXAMINE_SECONDS = 120.0  # in which nodes must say whether they have the same code
FIRST_ROOM_SECONDS = 5.0  # to wait for room: what another run has used may become free in a moment
ROOM_SECONDS = 300.0  # the same for a further start, when a node may be coming back
QUIET_SECONDS = 10.0  # without room, until the console says so
TRY_SECONDS = 1.0  # until a node that has not been reserved is taken for one that something else uses


@dataclass
class SeatedLearner:
    """A learner on a node."""

    rank: int
    node: str
    actor: Any
    exit_code: int | None = None
    errors: bytes = b""

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method of its actor returns. Raises a LearnerGoneError if the node does not answer, or cannot."""
        try:
            return call_actor(self.actor, method, *arguments)
        except RayError as error:
            raise LearnerGoneError(self, error) from error


class LearnerGoneError(Exception):
    """A learner, its actor or its node has ended, or does not answer."""

    def __init__(self, learner: SeatedLearner, error: RayError) -> None:
        super().__init__(f"learner {learner.rank}: {why_lost(error, learner.node)}")


class LearnersOnNodes:
    """The learners of one start, each of which belongs to an actor on its node."""

    def __init__(self, learners: Sequence[SeatedLearner], groups: Sequence[PlacementGroup], store: TCPStore) -> None:
        """The `groups` have reserved their nodes; at `store` they find each other."""
        self.learners = learners
        self._groups = groups
        self._store = store
        self._folder = ""
        self._line = "starts"  # the last one that the first learner has printed
        self._closed = threading.Event()

    def watch(self) -> None:
        """Called once they have started. From now on, threads wait for the nodes, so that nobody else has to."""
        threading.Thread(target=self._follow_commands, daemon=True).start()
        for learner in self.learners:
            threading.Thread(target=self._watch, args=(learner,), daemon=True).start()

    def exit_codes(self) -> list[int | None]:
        return [learner.exit_code for learner in self.learners]

    def _watch(self, learner: SeatedLearner) -> None:
        try:
            while learner.exit_code is None and not self._closed.wait(POLL_SECONDS):
                self._receive(learner, learner.call("state"))
        except LearnerGoneError as error:
            say(str(error))
            learner.exit_code = LOST

    def _receive(self, learner: SeatedLearner, state: State) -> None:
        write(sys.stdout, state.output)
        if learner.rank == 0:
            write(sys.stderr, state.errors)
            self._folder = state.folder
            self._line = next(reversed(state.output.decode(errors="replace").splitlines()), self._line)
        elif len(learner.errors) < MOST_ERRORS:
            learner.errors += state.errors
        learner.exit_code = state.exit_code

    def signal(self, number: int) -> None:
        for learner in self.learners:
            if learner.exit_code is None:
                learner.actor.call.remote("signal", int(number))

    def saved_folder(self) -> Path | None:
        """The run's folder on the node of the first learner, or here if that node is lost and others see it too."""
        if not self._folder:
            return None
        first = self.learners[0]
        try:
            is_saved = bool(first.call("newest_checkpoint", self._folder))
        except LearnerGoneError:
            is_saved = bool(newest_checkpoint(Path(self._folder)))
            if not is_saved:
                raise RunFailedError(
                    f"node {first.node} was lost with the run's folder, {self._folder}; once it is back, "
                    f"--op_mode=train_w_load --load_model_url={self._folder} goes on."
                ) from None
        return Path(self._folder) if is_saved else None

    def errors(self) -> bytes:
        return next((learner.errors for learner in self.learners if learner.errors), b"")

    def close(self) -> None:
        """Kill what is left. The guard of a learner whose actor is lost ends it on its node."""
        self._closed.set()
        left = [learner.actor for learner in self.learners if learner.exit_code in (None, LOST)]
        signals = [actor.call.remote("signal", int(signal.SIGKILL)) for actor in left]
        if signals:
            ray.wait(signals, num_returns=len(signals), timeout=CLOSE_SECONDS)
        for learner in self.learners:
            with suppress(RayError):
                ray.kill(learner.actor)
        for group in self._groups:
            remove_placement_group(group)

    def _follow_commands(self) -> None:
        """Show the state of the run in the cluster, and read the commands of `python -m cluster.command`."""
        run_state = RunState(time.time())
        details = [f"learner {learner.rank} on node {learner.node}" for learner in self.learners]
        while not self._closed.wait(COMMAND_SECONDS):
            if not self._folder:
                continue
            with suppress(Exception):  # the head does not answer now; whether that ends the run is found elsewhere
                for command in run_state.exchange(Path(self._folder).name, self._line, details):
                    if command in COMMANDS:
                        say(f"{command}: asked for by a command from the cluster")
                        os.kill(os.getpid(), COMMANDS[command])


class Room(NamedTuple):
    """A node that nothing else uses, reserved as a whole."""

    node: str
    cpus: int
    learners: int  # that fit
    group: Any = None  # the PlacementGroup that has reserved it


class Seat(NamedTuple):
    """The place of one learner."""

    node: str
    cpus: int


class NodeStart:
    """Called for each start of all learners. Nodes get learners only if nothing else uses them."""

    def __init__(self, address: str, learners: int, device: str) -> None:
        """Connect with the cluster."""
        self._learners = learners
        self._device = device
        self._nodes = ClusterNodes(address, code_version())
        self._need_gpus = False
        self._is_first = True

    def __call__(self, flags: Mapping[str, Any], is_stopping: Callable[[], bool]) -> LearnersOnNodes | None:
        """Raises a UsageError at the first start, and later a RunFailedError, if there is no room for all learners."""
        rooms = self._reserve(is_stopping)
        if rooms is None:
            return None
        self._is_first = False
        seats = choose_seats(rooms, self._learners, self._nodes.own)
        groups = {}
        for room in rooms:
            if any(seat.node == room.node for seat in seats):
                groups[room.node] = room.group
            else:
                remove_placement_group(room.group)
        own_address = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        store = TCPStore(own_address, 0, is_master=True, wait_for_workers=False)
        learners = [self._make_learner(rank, seat, groups[seat.node]) for rank, seat in enumerate(seats)]
        started = LearnersOnNodes(learners, list(groups.values()), store)
        try:
            self._start(flags, seats, started.learners, store)
            started.watch()
        except LearnerGoneError as error:  # all are lost, and the launcher starts them again
            say(str(error))
            for learner in started.learners:
                learner.exit_code = LOST
        except BaseException:
            started.close()
            raise
        return started

    def _reserve(self, is_stopping: Callable[[], bool]) -> list[Room] | None:
        """The nodes that nothing else uses, once there is room for all learners; None if the user stops the run."""
        begun, has_said = time.monotonic(), False
        while not is_stopping():
            for sentence in self._nodes.look():
                say(sentence)
            waited = time.monotonic() - begun
            if self._nodes.are_examined or waited > EXAMINE_SECONDS:
                rooms = self._free_rooms()
                most = sum(room.learners for room in rooms)
                if most >= self._learners:
                    return rooms
                for room in rooms:
                    remove_placement_group(room.group)
                if waited > (FIRST_ROOM_SECONDS if self._is_first else ROOM_SECONDS):
                    raise (UsageError if self._is_first else RunFailedError)(self._no_room(most))
                if waited > QUIET_SECONDS and not has_said:
                    has_said = True
                    say(f"waiting for nodes with room for {self._learners} learners; there is room for {most}")
            time.sleep(random.uniform(0, 2 * LOOK_SECONDS))
        return None

    def _free_rooms(self) -> list[Room]:
        """The usable nodes that can be reserved whole: nothing else uses them."""
        usable = {node_id: node for node_id, node in self._nodes.usable.items() if node.cpus}
        self._need_gpus = self._device.startswith("cuda") or (
            self._device == "auto" and any(node.gpus for node in usable.values())
        )
        rooms = []
        for node_id, node in usable.items():
            cpus, gpus = int(node.cpus), int(node.gpus) if self._need_gpus else 0
            whole = {"CPU": node.cpus, **({"GPU": node.gpus} if gpus else {})}
            group = placement_group([whole], bundle_label_selector=[{"ray.io/node-id": node_id}])
            rooms.append(Room(node_id, cpus, min(cpus, gpus) if self._need_gpus else cpus, group))
        deadline, free = time.monotonic() + TRY_SECONDS, set[str]()
        while len(free) < len(rooms) and time.monotonic() < deadline:
            free |= {room.node for room in rooms if is_reserved(room.group)}
            time.sleep(TRY_SECONDS / 50)
        for room in rooms:
            if room.node not in free:
                remove_placement_group(room.group)
        return [room for room in rooms if room.node in free]

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

    def _make_learner(self, rank: int, seat: Seat, group: PlacementGroup) -> SeatedLearner:
        node = self._nodes.nodes[seat.node]
        actor = self._nodes.actor.options(
            num_cpus=seat.cpus,
            num_gpus=1 if self._need_gpus else 0,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0),
        ).remote(node.checkout, "learners.node_learner", "NodeLearner", self._need_gpus, str(Path.cwd()))
        return SeatedLearner(rank, node.name, actor)

    def _start(
        self, flags: Mapping[str, Any], seats: Sequence[Seat], learners: Sequence[SeatedLearner], store: TCPStore
    ) -> None:
        """Start main.py as each learner."""
        gpus = [learner.call("gpus") for learner in learners]
        if url := flags.get("load_model_url"):
            copy_checkpoint(str(url), [learner.call for learner in learners])
        places = rank_variables([seat.node for seat in seats], store)
        for learner, seat, variables in zip(learners, seats, places, strict=True):
            if self._need_gpus:  # all learners of a node see the same ones, and choose by their local rank
                of_node = [own for own, other in zip(gpus, seats, strict=True) if other.node == seat.node]
                variables["CUDA_VISIBLE_DEVICES"] = ",".join(of_node)
            learner.call("start", flag_words(flags), variables)
            cpus = f"{seat.cpus} CPU{'s' * (seat.cpus > 1)}"
            say(f"node {learner.node}: learner {learner.rank} with {cpus}{' and a GPU' * self._need_gpus}")
        if seats[0].node != self._nodes.own:
            say(f"this machine has no room for a learner: the run's folder is on node {learners[0].node}")


def choose_seats(rooms: Sequence[Room], learners: int, own: str) -> list[Seat]:
    """The seats by rank; those of a node follow each other. There must be room for all.

    The first learner is on the node `own`, if there is room: it writes the run's folder. Each further one goes where
    it has the most CPUs, because all learners wait for the slowest one.
    """
    rooms = sorted(rooms, key=lambda room: room.node != own)
    counts: Counter[str] = Counter()
    for _ in range(learners):
        able = [room for room in rooms if counts[room.node] < room.learners]
        if counts or able[0].node != own:
            able.sort(key=lambda room: -room.cpus / (counts[room.node] + 1))
        counts[able[0].node] += 1
    return [Seat(room.node, room.cpus // counts[room.node]) for room in rooms for _ in range(counts[room.node])]


def copy_checkpoint(url: str, calls: Sequence[Callable[..., Any]]) -> None:
    """Copy the newest checkpoint that --load_model_url means to the nodes of learners that lack it.

    `calls` call a method of a learner's actor by its name. Replays stay where they are.
    """
    here = Path.cwd() / url
    found = [call("newest_checkpoint", url) for call in calls]
    newest = max(newest_checkpoint(here), *found)
    if all(name == newest for name in found):
        return
    is_here = newest_checkpoint(here) == newest
    content = (here / newest).read_bytes() if is_here else calls[found.index(newest)]("read", url, newest)
    for name, call in zip(found, calls, strict=True):
        if name != newest:
            call("write", url, newest, content)
