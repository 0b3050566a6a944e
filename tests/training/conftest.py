"""Runs that several tests of training share, and how their workers are started."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from evaluation.players import PlayerProcess
from processes.child import Child, start_child
from processes.fork_server import ForkServer
from processes.pool import ChildPool
from tests.training.catch_runs import catch_run


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with closing(
        ForkServer(["workers.worker", "evaluation.players", "wrappers.make_environment", "tests.catch"])
    ) as server:
        yield server


@pytest.fixture(scope="session")
def forked_workers(fork_server: ForkServer) -> Iterator[None]:
    """Workers and players of all runs in this process start in a hundredth of a second, not in the three of torch."""
    start = partial(start_child, launch=fork_server)

    def start_evaluation(player: PlayerProcess, name: str) -> Child:
        """Not at the lowest priority, at which it would wait for the tests beside it."""
        return start(replace(player, low_priority=False), name)

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr("workers.actors.start_child", start)
        patches.setattr("training.periodic_evaluation.ChildPool", partial(ChildPool, start=start_evaluation))
        patches.setattr("evaluation.score_checkpoint.ChildPool", partial(ChildPool, start=start))
        yield


@pytest.fixture(autouse=True)
def _forked(forked_workers: None) -> None:
    pass


@pytest.fixture(scope="session")
def saved_run(tmp_path_factory: pytest.TempPathFactory, forked_workers: None) -> Path:
    """1,000 steps, made once for several tests; a test that changes files must use `copy_of`.

    Its saved replays are full before the first update.
    """
    flags = {"save_replay": True, "training_fill_in_factor": 1.0}
    return catch_run(tmp_path_factory.mktemp("saved"), **flags, environment_max_steps=1_000)
