"""Runs of a sweep on the nodes of a Ray cluster. Imported only with --cluster."""

import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cluster.guarded_program import Stamp
from cluster.node_actor import ROOT, code_version
from cluster.nodes import ClusterNodes, Node, one_line
from options.command_line import flag_words
from run_files.run_folder import CHECKPOINTS, JOB_LOG, newest_first, remove_abandoned, write_atomically
from sweeps.job import Job, Places, resumable, start_words

SYNC_SECONDS = 0.5  # between two looks at the files of a run
NODES_SECONDS = 1.0  # between two looks at the nodes of the cluster
QUIET_SECONDS = 10.0  # without a run and without room, until the console says so
ANSWER_SECONDS = 90.0  # after which a node that does not answer has lost its programs
RETRY_SECONDS = 1.0  # between two calls of an actor to which the network is cut
NODE_ID = "ray.io/node-id"
RESULTS = "results"  # of a run, in its temporary folder on the node
TEXT = {".json", ".txt"}  # in which paths of the node become those of the sweep

Call = Callable[..., Any]  # a method of a GuardedProgram by its name, with its arguments


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


class RunFilesTransfer:
    """Copies between the folder of a job and the folder of its run on a node.

    Files that grow are continued; others are copied whole and renamed, so they are always complete.
    """

    def __init__(self, folder: Path, call: Call) -> None:
        self._folder = folder
        self._here, there = str(folder).encode(), f"{call('folder')}/{RESULTS}".encode()
        relative = rb"(?<![\w./-])" + RESULTS.encode() + rb"(?=/)"
        self._paths_there = re.compile(re.escape(there) + rb"|" + relative)
        self._call = call
        self._earlier = {path.name for path in folder.iterdir() if path.is_dir()}  # folders of earlier starts
        self._copied: dict[str, Stamp] = {}

    def send(self, parent: Path) -> None:
        """Send the checkpoint that a run continues from, with its replays, and the best ones of the parent."""
        remove_abandoned(parent / CHECKPOINTS)  # half of a file, from a sweep that was killed
        number = newest_first(parent / CHECKPOINTS)[0].stem.rpartition("_")[2]
        for path in (parent / CHECKPOINTS).iterdir():
            if not path.name.startswith(".") and (number in path.name or not path.name.startswith("checkpoint_")):
                self._call("write", f"{RESULTS}/{path.relative_to(self._folder)}", path.read_bytes())

    def fetch(self) -> int | None:
        """Bring what is new; the exit code, once the run has ended and all is here."""
        code, names, changes = self._call("news", RESULTS, self._copied, self._earlier)
        for name, stamp, offset, content in changes:
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            own = self._paths_there.sub(lambda _: self._here, content) if path.suffix in TEXT else content
            if offset or name == JOB_LOG:  # the log of earlier starts stays
                with path.open("ab") as file:
                    file.write(own)
            else:
                write_atomically(path, own)
            self._copied[name] = stamp
        if changes:
            return None
        for name in self._copied.keys() - names:
            del self._copied[name]
            if Path(name).parent.name == CHECKPOINTS:
                (self._folder / name).unlink(missing_ok=True)
        return code  # type: ignore[no-any-return]


class ClusterJob(Job):
    """A run on a node. Its files come into the job's folder until it has ended.

    A thread does all of this. `is_running` is true until the last byte is here, or the node is lost.
    """

    exit_code: int | None = None

    def __init__(self, folder: Path, room: Room, words: list[str]) -> None:
        """Start or continue the run in the room, which is released at its end. `words`: the program, and its flags."""
        self._folder, self._room = folder, room
        self._program = room.start()
        self.where = f" on node {self._program.node}"
        self._signals: list[int] = []  # not sent yet
        self._thread = threading.Thread(target=self._follow, args=(words,), name="cluster job", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def signal(self, number: signal.Signals) -> None:
        self._signals.append(int(number))  # sent by the thread: a run that has not started yet gets it then

    def _follow(self, words: list[str]) -> None:
        try:
            self.exit_code = self._run(self._program, *words)
        except ProgramLostError as error:
            self.why_lost = str(error)
        except OSError as error:  # files of this machine
            self.why_lost = f"its files could not be written ({error.strerror})"
        finally:
            self._program.end()  # its guard then ends the run and removes its folder
            self._room.release()

    def _run(self, node: NodeProgram, program: str, *flags: str) -> int:
        """Its exit code, once all of its files are here."""
        files = RunFilesTransfer(self._folder, node.call)
        if (parent := resumable(self._folder)) is not None:
            files.send(parent)
        # Relative paths: a checkpoint keeps --results_dir, and a folder of the node is not one to continue in later.
        mode = start_words(None if parent is None else f"{RESULTS}/{parent.name}")
        node.call("start", [program, *mode, f"--results_dir={RESULTS}", *flags], f"{RESULTS}/{JOB_LOG}")
        while (code := files.fetch()) is None:
            while self._signals:
                node.call("signal", self._signals.pop(0))
            time.sleep(SYNC_SECONDS)
        return code


class ClusterPlaces(Places):
    """Starts runs on nodes that have the CPUs and GPUs for them, and the same code and Python as this machine.

    Ray finds the node: what the next run needs is reserved before there is a run.
    """

    def __init__(
        self,
        address: str,
        program: Path,
        needs: Mapping[str, float],  # of a run: CPUs and GPUs, by Ray's names
        most: int | None,
        print_line: Callable[[str], None],
    ) -> None:
        self._cluster = ClusterNodes(address, code_version())
        self._program = program.relative_to(ROOT)
        self._needs, self._most = needs, most
        self._print_line = print_line
        self._next = Room(self._cluster, needs)  # for the next run
        self._looked_at = self._had_room_at = time.monotonic()
        self._said_full = False
        self._look()

    def has_room(self, running: int) -> bool:
        now = time.monotonic()
        if now - self._looked_at >= NODES_SECONDS:
            self._looked_at = now
            self._look()
        found = (self._most is None or running < self._most) and self._next.is_reserved()
        if found or running:
            self._had_room_at, self._said_full = now, False
        elif now - self._had_room_at > QUIET_SECONDS and not self._said_full:
            self._said_full = True
            self._print_line(f"waiting for a node with {self._words} for a run")
        return found

    def start(self, folder: Path, flags: Mapping[str, Any]) -> Job:
        room, self._next = self._next, Room(self._cluster, self._needs)
        return ClusterJob(folder, room, [str(self._program), *flag_words(flags)])

    @property
    def words(self) -> str:
        most = "as many as fit on the nodes" if self._most is None else f"at most {self._most}"
        return f"each with {self._words}, {most}"

    def close(self) -> None:
        ray.shutdown()

    def _look(self) -> None:
        for sentence in self._cluster.look():
            self._print_line(sentence)

    @property
    def _words(self) -> str:
        return " and ".join(f"{number:g} {name}s" for name, number in self._needs.items())
