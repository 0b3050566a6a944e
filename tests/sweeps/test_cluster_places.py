"""Room for runs is reserved before there is a run, with fakes in place of the cluster."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from cluster.node_actor import ROOT
from cluster.nodes import Node
from sweeps import cluster_places
from sweeps.cluster_places import ANSWER_SECONDS, ClusterPlaces
from tests.ports import free_ports
from tests.sweeps.cluster_sweep import CPUS
from tests.sweeps.fake_sweeps import command, run_sweep, wait_until

FULL_DISK = OSError(28, "No space left on device")


class FakeCluster:
    """Nodes with the same checkout, and what is reserved on them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.actor = FakeActor()
        self.nodes = {"ab": Node("a", checkout="/checkout", cpus=2.0)}
        self.free = 2
        self.reserved: list[Group] = []
        self.asked: list[tuple[Any, Any]] = []
        monkeypatch.setattr(cluster_places, "ClusterNodes", lambda *_: self)
        monkeypatch.setattr(cluster_places, "placement_group", self._reserve)
        monkeypatch.setattr(cluster_places, "remove_placement_group", self._remove)
        monkeypatch.setattr(cluster_places, "placement_group_table", Group.table)
        monkeypatch.setattr(cluster_places, "PlacementGroupSchedulingStrategy", lambda group, index: group)
        monkeypatch.setattr(ray, "kill", lambda actor: None)

    @property
    def usable(self) -> dict[str, Node]:
        return self.nodes

    def look(self) -> list[str]:
        return []

    def _reserve(self, bundles: Any, strategy: str, bundle_label_selector: Any) -> "Group":
        self.asked.append((bundles[0], bundle_label_selector[0]))
        return Group(self)

    def _remove(self, group: "Group") -> None:
        if group in self.reserved:
            self.reserved.remove(group)


class Group:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def table(self) -> dict[str, Any]:
        if self not in self._cluster.reserved and len(self._cluster.reserved) < self._cluster.free:
            self._cluster.reserved.append(self)
        state = "CREATED" if self in self._cluster.reserved else "PENDING"
        return {"state": state, "bundles_to_node_id": {0: "ab"}}


class FakeActor:
    """Takes the place of Ray's class of actors, and of an actor. Each call of it raises `error`, as in Ray's `get`."""

    error: Exception = RayError()

    @property
    def call(self) -> "FakeActor":
        return self

    def options(self, **_: Any) -> "FakeActor":
        return self

    def remote(self, method: str, *_: Any) -> "FakeActor":
        if method == "folder":
            raise self.error
        return self


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    return FakeCluster(monkeypatch)


def make_places(most: int | None = None, **needs: float) -> ClusterPlaces:
    return ClusterPlaces("auto", ROOT / "main.py", {"CPU": 1, **needs}, most, print)


@pytest.mark.parametrize(("most", "runs"), [(None, 2), (1, 1)])
def test_runs_start_while_ray_has_room(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int | None, runs: int
) -> None:
    monkeypatch.setattr(cluster_places.ClusterJob, "_follow", lambda *_: None)  # it would free its room at once
    places, jobs = make_places(most), list[Any]()
    while places.has_room(len(jobs)):
        jobs.append(places.start(tmp_path, {}))
    assert len(jobs) == runs


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            RayTaskError("state", "a traceback", FULL_DISK),  # type: ignore[no-untyped-call]
            "its node a could not go on with it ([Errno 28] No space left on device)",
        ),
        (GetTimeoutError(), f"its node a did not answer for {ANSWER_SECONDS:g} seconds"),
        (RayError(), "its node a has lost it (RayError)"),
        (FULL_DISK, "its files could not be written (No space left on device)"),
    ],
)
def test_a_lost_run_says_why_and_frees_its_room(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    monkeypatch.setattr(FakeActor, "error", error)
    cluster.free = 1
    places = make_places()
    assert places.has_room(0)
    job = places.start(tmp_path, {})
    wait_until(lambda: not job.is_running)
    assert (job.why_lost, job.exit_code) == (words, None)
    assert places.has_room(0)


def test_what_a_run_needs_is_asked_of_the_nodes_with_the_same_code(cluster: FakeCluster) -> None:
    places = make_places(GPU=0.5)
    assert places.has_room(0)
    cluster.nodes["cd"] = Node("c", checkout="/checkout", cpus=2.0)
    assert places.has_room(0)
    needed = {"CPU": 1, "GPU": 0.5}
    assert cluster.asked == [(needed, {"ray.io/node-id": "in(ab)"}), (needed, {"ray.io/node-id": "in(ab,cd)"})]
    assert len(cluster.reserved) == 1, "only for the next run"


def test_without_an_answer_of_the_head_one_sentence_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    words = command(tmp_path / "sweep", {}, f"--cluster=127.0.0.1:{port}", *CPUS)
    assert run_sweep(words) == 2
    assert f"--cluster=127.0.0.1:{port} does not answer (Connection refused)" in capsys.readouterr().err
