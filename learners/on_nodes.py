"""Learners on the nodes of a Ray cluster: what Ray reserves for them, and how they are started, watched and ended.

Imported only with --cluster.
"""

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ray
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but not in its list of names

from cluster.guarded_program import Stamp, newest_checkpoint
from cluster.node_actor import code_version
from cluster.node_programs import NodeProgram, ProgramLostError, Room
from cluster.nodes import ClusterNodes, Node
from learners.launcher import MOST_ERRORS, POLL_SECONDS, rank_variables, say, told_folder, write
from options.command_line import flag_words
from options.rules import UsageError
from processes.pool import RunFailedError

LOST = -1  # the exit code of a learner whose node does not tell it
CLOSE_SECONDS = 5.0
END_SECONDS = 60.0  # that a learner has to save and end after its actor has ended
OUTPUT, ERRORS = "output.txt", "errors.txt"  # of a learner, in its temporary folder
LOOK_SECONDS = 0.5  # between two looks at the nodes
EXAMINE_SECONDS = 120.0  # in which nodes must say whether they have the same code
OWN_SECONDS = 5.0  # in which room for the first learner is looked for on this machine only
FIRST_ROOM_SECONDS = 10.0  # to wait for room: what another run has used may become free in a moment
ROOM_SECONDS = 300.0  # the same for a further start, when a node may be coming back
QUIET_SECONDS = 10.0  # without room, until the console says so


class LearnersOnNodes:
    """The learners of one start. Threads wait for the nodes, so that nobody else has to."""

    def __init__(self, programs: Sequence[NodeProgram], room: Room) -> None:
        """The programs are actors that have not started their learners, by rank."""
        self._programs = programs
        self._room = room
        own_address = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        self._store = TCPStore(own_address, 0, is_master=True, wait_for_workers=False)
        self._codes: list[int | None] = [None] * len(programs)
        self._errors = [b""] * len(programs)
        self._closed = threading.Event()

    def start(self, flags: Mapping[str, Any]) -> None:
        """Start main.py as all learners, and watch them. If one cannot start, all of them are lost."""
        try:
            self._start(flags)
        except ProgramLostError as error:
            say(f"a learner cannot start: {error}")
            self._codes = [LOST] * len(self._programs)
            return
        for rank in range(len(self._programs)):
            threading.Thread(target=self._watch, args=(rank,), daemon=True).start()

    def _start(self, flags: Mapping[str, Any]) -> None:
        gpus = [program.call("gpus") for program in self._programs]
        self._folders = [program.call("folder") for program in self._programs]
        if url := flags.get("load_model_url"):
            copy_checkpoint(str(url), [program.call for program in self._programs])
        nodes = [program.node for program in self._programs]
        places = rank_variables(nodes, self._store)
        for rank, (program, variables, needs) in enumerate(zip(self._programs, places, self._room.needs, strict=True)):
            if "GPU" in needs:  # all learners of a node see the same ones, and choose by their local rank
                of_node = [own for own, other in zip(gpus, nodes, strict=True) if other == program.node]
                variables["CUDA_VISIBLE_DEVICES"] = ",".join(of_node)
            output = f"{self._folders[rank]}/{OUTPUT}", f"{self._folders[rank]}/{ERRORS}"
            program.call("start", ["main.py", *flag_words(flags)], output, variables, END_SECONDS)
            cpus = f"{needs['CPU']:g} CPU{'s' * (needs['CPU'] > 1)}"
            say(f"node {program.node}: learner {rank} with {cpus}{' and a GPU' * ('GPU' in needs)}")

    def exit_codes(self) -> list[int | None]:
        return list(self._codes)

    def _watch(self, rank: int) -> None:
        known: dict[str, Stamp] = {}
        try:
            while self._codes[rank] is None and not self._closed.wait(POLL_SECONDS):
                code, _, changes = self._programs[rank].call("news", self._folders[rank], known)
                for name, stamp, _, content in changes:
                    known[name] = stamp
                    self._receive(rank, name, content)
                self._codes[rank] = None if changes else code
        except ProgramLostError as error:
            say(f"learner {rank}: {error}")
            self._codes[rank] = LOST

    def _receive(self, rank: int, name: str, content: bytes) -> None:
        if name == OUTPUT:
            write(sys.stdout, content)
        elif name == ERRORS and rank == 0:
            write(sys.stderr, content)
        elif name == ERRORS and len(self._errors[rank]) < MOST_ERRORS:
            self._errors[rank] += content

    def signal(self, number: int) -> None:
        for program, code in zip(self._programs, self._codes, strict=True):
            if code is None:
                program.send("signal", int(number))

    def saved_folder(self) -> Path | None:
        """The run's folder on the node of the first learner, or here if that node is lost and others see it too."""
        folder, first = told_folder(self._store), self._programs[0]
        if folder is None:
            return None
        try:
            is_saved = bool(first.call("newest_checkpoint", str(folder)))
        except ProgramLostError:
            is_saved = bool(newest_checkpoint(folder))
            if not is_saved:
                raise RunFailedError(
                    f"node {first.node} was lost with the run's folder, {folder}; once it is back, "
                    f"--op_mode=train_w_load --load_model_url={folder} goes on."
                ) from None
        return folder if is_saved else None

    def errors(self) -> bytes:
        return next(filter(None, self._errors), b"")

    def close(self) -> None:
        """Kill what is left. The guard of a learner whose actor is lost ends it on its node."""
        self._closed.set()
        left = zip(self._programs, self._codes, strict=True)
        signals = [program.send("signal", int(signal.SIGKILL)) for program, code in left if code in (None, LOST)]
        if signals:
            ray.wait(signals, num_returns=len(signals), timeout=CLOSE_SECONDS)
        for program in self._programs:
            program.end()
        self._room.release()


class NodeStart:
    """Called for each start of all learners."""

    def __init__(self, address: str, learners: int, device: str) -> None:
        """Connect with the cluster."""
        self._learners = learners
        self._device = device
        self._cluster = ClusterNodes(address, code_version())
        self._is_first = True

    def __call__(self, flags: Mapping[str, Any], is_stopping: Callable[[], bool]) -> LearnersOnNodes | None:
        """Raises a UsageError at the first start, and later a RunFailedError, if there is no room for all learners."""
        with ExitStack() as undo:
            room = Room(self._cluster)
            undo.callback(room.release)
            if not self._find_room(room, is_stopping):
                return None
            self._is_first = False
            if room.nodes[0] is not self._cluster.usable.get(self._cluster.own):
                say(f"this machine has no room for a learner: the run's folder is on node {room.nodes[0].name}")
            programs = [room.start(rank, str(Path.cwd())) for rank in range(self._learners)]
            learners = LearnersOnNodes(programs, room)
            undo.callback(learners.close)
            learners.start(flags)
            undo.pop_all()
            return learners

    def _find_room(self, room: Room, is_stopping: Callable[[], bool]) -> bool:
        """Wait until Ray has reserved room for all learners. False if the user stops the run."""
        begun, examined_at, has_said = time.monotonic(), math.inf, False
        while not is_stopping():
            for sentence in self._cluster.look():
                say(sentence)
            now = time.monotonic()
            if self._cluster.are_examined or now - begun > EXAMINE_SECONDS:
                examined_at = min(examined_at, now)
            waited = now - examined_at
            if waited >= 0:
                needs = learner_needs(self._cluster.usable.values(), self._learners, self._device)
                own = self._cluster.usable.get(self._cluster.own) if waited < OWN_SECONDS else None
                if needs and own is not None and own.cpus >= 1 and own.gpus >= needs[0].get("GPU", 0):
                    needs[0]["CPU"] = min(needs[0]["CPU"], int(own.cpus))
                    found = room.is_reserved(needs, first_on=self._cluster.own)
                else:
                    found = bool(needs) and room.is_reserved(needs)
                if found:
                    return True
                if waited > (FIRST_ROOM_SECONDS if self._is_first else ROOM_SECONDS):
                    raise (UsageError if self._is_first else RunFailedError)(self._no_room())
                if waited > QUIET_SECONDS and not has_said:
                    has_said = True
                    say(f"waiting for nodes with room for {self._learners} learners")
            time.sleep(LOOK_SECONDS)
        return False

    def _no_room(self) -> str:
        usable = self._cluster.usable.values()
        gpus = needs_gpus(usable, self._device)
        kind = "GPUs" if gpus else "CPUs"
        right = "fewer learners or more nodes would be right"
        if gpus and self._device == "auto":
            right += ", or --device=cpu"
        return (
            f"--learners={self._learners} needs as many {kind} that no other program of Ray uses, and the cluster has "
            f"{sum(places(node, 1, gpus) for node in usable)} in all; {right}."
        )


def needs_gpus(nodes: Collection[Node], device: str) -> bool:
    return device.startswith("cuda") or (device == "auto" and any(node.gpus for node in nodes))


def places(node: Node, cpus: int, gpus: bool) -> int:
    """How many learners with so many CPUs the node could have."""
    by_cpus = int(node.cpus) // cpus
    return min(by_cpus, int(node.gpus)) if gpus else by_cpus


def learner_needs(nodes: Collection[Node], learners: int, device: str) -> list[dict[str, float]]:
    """What each learner gets, by Ray's names: the most CPUs that all can have, because all wait for the slowest one.

    Nothing if the nodes have too little even for one CPU each.
    """
    gpus = needs_gpus(nodes, device)
    most = max((int(node.cpus) for node in nodes), default=0)
    able = (cpus for cpus in range(most, 0, -1) if sum(places(node, cpus, gpus) for node in nodes) >= learners)
    cpus = next(able, 0)
    return [{"CPU": cpus, **({"GPU": 1} if gpus else {})} for _ in range(learners)] if cpus else []


def copy_checkpoint(url: str, calls: Sequence[Callable[..., Any]]) -> None:
    """Copy the newest checkpoint that --load_model_url means to the nodes of learners that lack it.

    `calls` call a method of a learner's actor by its name. Replays stay where they are.
    """
    found = [call("newest_checkpoint", url) for call in calls]
    newest = max(newest_checkpoint(Path(url)), *found)
    if all(name == newest for name in found):
        return
    is_here = newest_checkpoint(Path(url)) == newest
    path = str(Path(url, newest))
    content = Path(path).read_bytes() if is_here else calls[found.index(newest)]("read", path)
    for name, call in zip(found, calls, strict=True):
        if name != newest:
            call("write", path, content)
