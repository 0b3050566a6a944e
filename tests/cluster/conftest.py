"""Runs on the Ray cluster of the tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.cluster_run import ClusterRun
from tests.cluster.some_nodes import SomeNodes

StartRun = Callable[..., ClusterRun]


@pytest.fixture(scope="module")
def nodes(ray_head: SomeNodes) -> Iterator[SomeNodes]:
    """A head without CPUs, and one node with one CPU."""
    ray_head.add()
    yield ray_head
    ray_head.kill_all()


@pytest.fixture
def start_run(nodes: SomeNodes, tmp_path: Path) -> Iterator[StartRun]:
    """Starts runs of Catch on the cluster; they are killed after the test."""
    with ExitStack() as stack:

        def start(*flags: str) -> ClusterRun:
            run = ClusterRun(nodes, tmp_path / "results", *flags)
            stack.callback(run.close)
            return run

        yield start
