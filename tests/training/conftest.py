"""A run that several tests of training share, and how evaluations are started."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.players import PlayerProcess
from processes.child import Child
from processes.fork_server import start_forked
from tests.training.catch_runs import catch_run


@pytest.fixture(scope="session", autouse=True)
def _equal_priority() -> Iterator[None]:
    """Evaluations at the lowest priority would wait for the tests beside them."""

    def start(player: PlayerProcess, name: str) -> Child:
        return start_forked(replace(player, low_priority=False), name)

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr("training.periodic_evaluation.start_forked", start)
        yield


@pytest.fixture(scope="session")
def saved_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 steps, made once for several tests; a test that changes files must use `copy_of`.

    Its saved replays are full before the first update.
    """
    flags = {"save_replay": True, "training_fill_in_factor": 1.0}
    return catch_run(tmp_path_factory.mktemp("saved"), **flags, environment_max_steps=1_000)
