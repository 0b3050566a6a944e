"""Settings for tests of sweeps, and sweeps on the Ray cluster of the tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import multi_train
from tests.sweeps.cluster_sweep import ClusterSweep
from tests.sweeps.some_nodes import NodesWithFolders

StartSweep = Callable[..., ClusterSweep]


@pytest.fixture(autouse=True, scope="session")
def no_drawing() -> Iterator[None]:
    """Drawing takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multi_train, "draw_curves", lambda rows, picture: f"{len(rows)} curves in {picture.name}")
        yield


@pytest.fixture(scope="module")
def nodes(ray_head: NodesWithFolders) -> Iterator[NodesWithFolders]:
    """A head without CPUs."""
    yield ray_head
    ray_head.kill_all()


@pytest.fixture
def two(nodes: NodesWithFolders) -> Iterator[list[Path]]:
    """The folders of two nodes with two CPUs each."""
    added = [nodes.add_with_folder(), nodes.add_with_folder()]
    yield added
    for folder in added:
        if folder.exists():
            nodes.kill_with_folder(folder)


@pytest.fixture
def start_sweep(nodes: NodesWithFolders, tmp_path: Path) -> Iterator[StartSweep]:
    """Starts sweeps on the cluster; they are killed after the test."""
    with ExitStack() as stack:

        def start(definition: dict[str, Any], *words: str, **others: Any) -> ClusterSweep:
            sweep = ClusterSweep(nodes, tmp_path / "sweep", definition, *words, **others)
            stack.callback(sweep.close)
            return sweep

        yield start
