"""Runs of a sweep on the nodes of a Ray cluster. Imported only with --cluster."""

import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cluster.node_actor import ROOT, code_version
from cluster.nodes import ClusterNodes, call_actor, is_reserved, why_lost
from options.command_line import flag_words
from sweeps.job import Job, Places, resumable, start_words
from sweeps.node_job import RESULTS
from sweeps.run_files_transfer import RunFilesTransfer

SYNC_SECONDS = 0.5  # between two looks at the files of a run
NODES_SECONDS = 1.0  # between two looks at the nodes of the cluster
QUIET_SECONDS = 10.0  # without a run and without room, until the console says so


class ClusterJob(Job):
    """A run in an actor on a node. Its files come into the job's folder until it has ended.

    A thread does all of this. `is_running` is true until the last byte is here, or the node is lost.
    """

    def __init__(self, folder: Path, actor: Any, node: str) -> None:
        self.where = f" on node {node}"
        self._folder, self._actor, self._node = folder, actor, node
        self._code: int | None = None
        self._signals: list[int] = []  # not sent yet
        self._thread: threading.Thread | None = None

    def start(self, program: Path, flags: Mapping[str, Any], on_end: Callable[[], None]) -> None:
        """`program` is relative to the checkout. `on_end` frees the room on the node."""

        def work() -> None:
            try:
                self._code = self._run(program, flags)
            except RayError as error:
                self.why_lost = why_lost(error, self._node)
            except OSError as error:  # files of this machine
                self.why_lost = f"its files could not be written ({error.strerror})"
            finally:
                with suppress(RayError):
                    ray.kill(self._actor)  # its guard then ends the run and removes its folder
                on_end()

        self._thread = threading.Thread(target=work, name="cluster job", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def exit_code(self) -> int | None:
        return self._code

    def signal(self, number: signal.Signals) -> None:
        self._signals.append(int(number))  # sent by the thread: a run that has not started yet gets it then

    def _run(self, program: Path, flags: Mapping[str, Any]) -> int:
        """Start or continue the run; return its exit code once all of its files are here."""
        files = RunFilesTransfer(self._folder, self._call("folder"), self._call)
        parent = resumable(self._folder)
        files.send(parent)
        # Relative paths: a checkpoint keeps --results_dir, and a folder of the node is not one to continue in later.
        mode = start_words(None if parent is None else f"{RESULTS}/{parent.name}")
        self._call("start", str(program), [*mode, f"--results_dir={RESULTS}", *flag_words(flags)])
        while True:
            code, stamps = self._call("state")
            files.fetch(stamps)
            if code is not None:
                return int(code)
            while self._signals:
                self._call("signal", self._signals.pop(0))
            time.sleep(SYNC_SECONDS)

    def _call(self, method: str, *arguments: Any) -> Any:
        return call_actor(self._actor, method, *arguments)


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
        self._nodes = ClusterNodes(address, code_version())
        self._program = program.relative_to(ROOT)
        self._needs, self._most = dict(needs), most
        self._print_line = print_line
        self._next: PlacementGroup | None = None  # what is reserved for the next run, or waits for its room
        self._next_among: list[str] = []  # the nodes where that may be
        self._looked_at = self._had_room_at = time.monotonic()
        self._said_full = False
        self._look()

    def has_room(self, running: int) -> bool:
        now = time.monotonic()
        if now - self._looked_at >= NODES_SECONDS:
            self._looked_at = now
            self._look()
        found = (self._most is None or running < self._most) and self._is_reserved()
        if found or running:
            self._had_room_at, self._said_full = now, False
        elif now - self._had_room_at > QUIET_SECONDS and not self._said_full:
            self._said_full = True
            self._print_line(f"waiting for a node with {self._words} for a run")
        return found

    def start(self, folder: Path, flags: Mapping[str, Any]) -> Job:
        group = self._next
        places = placement_group_table(group)["bundles_to_node_id"] if group is not None and self._is_reserved() else {}
        node = self._nodes.nodes.get(places.get(0, ""))
        if group is None or node is None:
            raise OSError(0, "no node has room for it any more")
        self._next = None
        actor = self._nodes.actor.options(
            num_cpus=self._needs["CPU"],
            num_gpus=self._needs.get("GPU", 0),
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0),
        ).remote(node.checkout, "sweeps.node_job", "NodeJob", "GPU" in self._needs)
        job = ClusterJob(folder, actor, node.name)
        job.start(self._program, flags, lambda: remove_placement_group(group))
        return job

    @property
    def words(self) -> str:
        most = "as many as fit on the nodes" if self._most is None else f"at most {self._most}"
        return f"each with {self._words}, {most}"

    def close(self) -> None:
        ray.shutdown()

    def _look(self) -> None:
        for sentence in self._nodes.look():
            self._print_line(sentence)

    @property
    def _words(self) -> str:
        return " and ".join(f"{number:g} {name}s" for name, number in self._needs.items())

    def _is_reserved(self) -> bool:
        """Whether there is room for a run on a usable node; asks Ray for it if nobody has."""
        usable = sorted(self._nodes.usable)
        if self._next is not None and usable != self._next_among:
            remove_placement_group(self._next)
            self._next = None
        if self._next is None and usable:
            where = {"ray.io/node-id": f"in({','.join(usable)})"}
            self._next = placement_group([self._needs], "SPREAD", bundle_label_selector=[where])
            self._next_among = usable
        return self._next is not None and is_reserved(self._next)
