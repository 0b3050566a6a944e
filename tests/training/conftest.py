"""Runs that several tests of resuming share."""

from pathlib import Path

import pytest

from tests.training.catch_runs import catch_run


@pytest.fixture(scope="session")
def saved_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 steps, made once for several tests; a test that changes files must use `copy_of`.

    Its saved replays are full before the first update.
    """
    flags = {"save_replay": True, "training_fill_in_factor": 1.0}
    return catch_run(tmp_path_factory.mktemp("saved"), **flags, environment_max_steps=1_000)
