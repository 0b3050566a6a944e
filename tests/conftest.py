"""Settings for all tests."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from tests.sweeps.some_nodes import NodesWithFolders

settings.register_profile("no timed assertions", deadline=None)
settings.load_profile("no timed assertions")

# As in an activated environment, so that the commands that the programs print begin with `python`.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"

# Its failed assertions show their values, like those of a test.
pytest.register_assert_rewrite("tests.training.resumed_runs")

# A shell lets programs in the background ignore CTRL+C, and the processes of tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Threads that wait for each other are slow where other tests, or other programs, use the cores as well.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def torch_as_it_was() -> Iterator[None]:
    """Training sets torch up for the whole process, which is this one in some tests; hypothesis minds it, for one."""
    threads, cudnn = torch.get_num_threads(), torch.backends.cudnn
    benchmark, tf32 = cudnn.benchmark, cudnn.allow_tf32
    yield
    cudnn.benchmark, cudnn.allow_tf32 = benchmark, tf32
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)
    torch.set_deterministic_debug_mode("default")


@pytest.fixture(scope="module")
def ray_head() -> Iterator[NodesWithFolders]:
    """The head of a Ray cluster on this machine, without CPUs, to which tests add nodes. It costs CPU when idle."""
    pytest.importorskip("ray")
    with closing(NodesWithFolders(RAY_worker_niceness="0")) as cluster:  # as every other process
        yield cluster
