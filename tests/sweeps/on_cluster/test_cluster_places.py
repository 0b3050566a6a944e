"""Room for runs is reserved before there is a run, with fakes in place of the cluster."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

import ray

from cluster.node_code import ROOT
from cluster.nodes import Node
from sweeps.on_cluster import cluster_places
from sweeps.on_cluster.cluster_places import ClusterPlaces


class FakeCluster:
    """Nodes with the same checkout, and what is reserved on them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes = {"ab": Node("a", None, "/checkout", 2.0)}
        self.free = 2
        self.reserved: list[Group] = []
        self.asked: list[tuple[Any, Any]] = []
        monkeypatch.setattr(cluster_places, "ClusterNodes", lambda *_: self)
        monkeypatch.setattr(cluster_places, "placement_group", self._reserve)
        monkeypatch.setattr(cluster_places, "remove_placement_group", self._remove)
        monkeypatch.setattr(cluster_places, "is_reserved", Group.is_reserved)
        monkeypatch.setattr(cluster_places, "placement_group_table", lambda _: {"bundles_to_node_id": {0: "ab"}})
        monkeypatch.setattr(cluster_places, "PlacementGroupSchedulingStrategy", lambda group, index: group)

    @property
    def usable(self) -> dict[str, Node]:
        return self.nodes

    def look(self) -> None:
        """They stay."""

    def _reserve(self, bundles: Any, strategy: str, bundle_label_selector: Any) -> "Group":
        self.asked.append((bundles[0], bundle_label_selector[0]))
        return Group(self)

    def _remove(self, group: "Group") -> None:
        if group in self.reserved:
            self.reserved.remove(group)


class Group:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def is_reserved(self) -> bool:
        if self not in self._cluster.reserved and len(self._cluster.reserved) < self._cluster.free:
            self._cluster.reserved.append(self)
        return self in self._cluster.reserved


class FakeActor:
    """Takes the place of Ray's class of actors."""

    def options(self, **_: Any) -> "FakeActor":
        return self

    def remote(self, *_: Any) -> None:
        pass


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    monkeypatch.setattr(ray, "remote", lambda _: FakeActor())
    return FakeCluster(monkeypatch)


def make_places(cluster: FakeCluster, most: int | None = None, gpus: float = 0.0) -> ClusterPlaces:
    return ClusterPlaces("auto", ROOT / "main.py", 1, gpus, most, print)


def started(places: ClusterPlaces, folder: Path) -> Any:
    job: Any = places.make_job(folder)
    job._make_actor()
    return job


@pytest.mark.parametrize(("most", "runs"), [(None, 2), (1, 1)])
def test_runs_start_while_ray_has_room(cluster: FakeCluster, tmp_path: Path, most: int | None, runs: int) -> None:
    places, jobs = make_places(cluster, most), list[Any]()
    while places.has_room(len(jobs)):
        jobs.append(started(places, tmp_path / "job"))
    assert len(jobs) == runs
    jobs.pop()._on_end()
    assert places.has_room(len(jobs))


def test_what_a_run_needs_is_asked_of_the_nodes_with_the_same_code(cluster: FakeCluster) -> None:
    places = make_places(cluster, gpus=0.5)
    assert places.has_room(0)
    cluster.nodes["cd"] = Node("c", None, "/checkout", 2.0)
    assert places.has_room(0)
    needed = {"CPU": 1, "GPU": 0.5}
    assert cluster.asked == [(needed, {"ray.io/node-id": "in(ab)"}), (needed, {"ray.io/node-id": "in(ab,cd)"})]
    assert len(cluster.reserved) == 1, "only for the next run"


def test_a_job_that_cannot_be_made_or_started_takes_no_room(cluster: FakeCluster, tmp_path: Path) -> None:
    places = make_places(cluster)
    cluster.free = 1
    (tmp_path / "file").touch()
    assert places.has_room(0)
    with pytest.raises(OSError):
        places.make_job(tmp_path / "file" / "job")
    places.make_job(tmp_path / "never started")
    assert places.has_room(0)
    started(places, tmp_path / "job")
    assert not places.has_room(1)
