"""A Ray cluster on this machine for the tests of sweeps on one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.sweeps.on_cluster.cluster_sweep import ClusterSweep
from tests.sweeps.on_cluster.some_nodes import SomeNodes

StartSweep = Callable[..., ClusterSweep]


@pytest.fixture(scope="module")
def nodes() -> Iterator[SomeNodes]:
    """A head without CPUs. Nodes that a test adds, it kills again."""
    pytest.importorskip("ray")
    cluster = SomeNodes()
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def two(nodes: SomeNodes) -> Iterator[list[Path]]:
    """The folders of two nodes with two CPUs each."""
    added = [nodes.add(), nodes.add()]
    yield added
    for folder in added:
        if folder.exists():
            nodes.kill(folder)


@pytest.fixture
def start_sweep(nodes: SomeNodes, tmp_path: Path) -> Iterator[StartSweep]:
    """Starts sweeps on the cluster; they are killed after the test."""
    with ExitStack() as stack:

        def start(definition: dict[str, Any], *words: str, **others: Any) -> ClusterSweep:
            sweep = ClusterSweep(nodes, tmp_path / "sweep", definition, *words, **others)
            stack.callback(sweep.close)
            return sweep

        yield start
