"""Which nodes have room for runs, without a cluster."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from cluster.code_version import ROOT
from cluster.programs.nodes import Node
from sweeps.on_cluster import cluster_places
from sweeps.on_cluster.cluster_places import ClusterPlaces

NODE_ID = "ab" * 28  # Ray checks its form


class FakeNodes:
    def __init__(self, *_: Any) -> None:
        self.nodes: dict[str, Node] = {}

    def look(self) -> None:
        pass


class FakeActor:
    """Takes the place of Ray's class of actors."""

    def options(self, **_: Any) -> "FakeActor":
        return self

    def remote(self, *_: Any) -> None:
        pass


def places_with(monkeypatch: pytest.MonkeyPatch, node: Node, cpus: float, gpus: float = 0.0) -> ClusterPlaces:
    monkeypatch.setattr(cluster_places, "ClusterNodes", FakeNodes)
    places = ClusterPlaces("auto", ROOT / "main.py", cpus, gpus, None, print)
    places._nodes.nodes[NODE_ID] = node
    monkeypatch.setattr(places, "_actor", FakeActor())
    return places


def runs_at_once(places: ClusterPlaces, folder: Path) -> int:
    """How many runs take room until there is none."""
    runs = 0
    while places.has_room(runs):
        job: Any = places.make_job(folder)
        job._make_actor()
        runs += 1
    return runs


@pytest.mark.parametrize(
    ("all_cpus", "cpus", "all_gpus", "gpus", "runs"),
    [
        (8, 3, 0, 0, 2),
        (1, 0.1, 0, 0, 10),
        (16, 1, 1, 0.2, 5),  # 1 - 4 * 0.2 is less than 0.2
        (16, 1, 2, 0.6, 2),  # Ray takes both parts of a run from one GPU
        (16, 1, 2, 0.3, 6),
        (16, 1, 3, 2, 1),
        (16, 1, 0, 0.5, 0),
    ],
)
def test_as_many_runs_as_fit_on_a_node(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    all_cpus: float,
    cpus: float,
    all_gpus: float,
    gpus: float,
    runs: int,
) -> None:
    node = Node("a", None, "/checkout", all_cpus, all_gpus, all_cpus, all_gpus)
    assert runs_at_once(places_with(monkeypatch, node, cpus, gpus), tmp_path / "job") == runs


def test_what_others_use_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node("a", None, "/checkout", 8, 2, 4, 1)
    assert runs_at_once(places_with(monkeypatch, node, 1, 0.5), tmp_path / "job") == 2


def test_a_job_that_cannot_be_made_takes_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = places_with(monkeypatch, Node("a", None, "/checkout", 1, 0, 1, 0), 1)
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        places.make_job(tmp_path / "file" / "job")
    assert places.has_room(0)
    job: Any = places.make_job(tmp_path / "job")
    job._make_actor()
    assert not places.has_room(1)
