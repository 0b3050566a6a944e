"""A Ray cluster on this machine for the tests that need one; it is started once for a file of tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.cluster.cluster_run import ClusterRun
from tests.cluster.some_nodes import SomeNodes

StartRun = Callable[..., ClusterRun]


@pytest.fixture(scope="module")
def nodes() -> Iterator[SomeNodes]:
    """A head without CPUs, and one node with one CPU. Nodes that a test adds, it kills again."""
    with closing(SomeNodes()) as cluster:
        cluster.add()
        yield cluster


@pytest.fixture
def start_run(nodes: SomeNodes, tmp_path: Path) -> Iterator[StartRun]:
    """Starts runs of Catch on the cluster; they are killed after the test."""
    with ExitStack() as stack:

        def start(*flags: str) -> ClusterRun:
            run = ClusterRun(nodes, tmp_path / "results", *flags)
            stack.callback(run.close)
            return run

        yield start
