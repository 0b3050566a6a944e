"""A run whose episodes all last until the time limit: with --spread_starts they do not end in the same steps."""

import csv
from pathlib import Path

import pytest

from main import main

pytestmark = pytest.mark.slow

LIMIT, ENVIRONMENTS, EPISODES = 200, 4, 2  # Pendulum's limit; as many episodes as each environment has steps for
UNROLL = 20


@pytest.mark.parametrize(("flags", "games"), [([], 2 * ENVIRONMENTS), (["--spread_starts"], ENVIRONMENTS)])
def test_only_the_first_episode_of_each_environment_is_cut(tmp_path: Path, flags: list[str], games: int) -> None:
    words = [
        *("--env=Pendulum-v1", "--settings=standard"),
        "--worker_count=1",
        f"--envs_per_worker={ENVIRONMENTS}",
        "--batch_size=4",
        f"--r_f_steps={UNROLL}",
    ]
    words += [f"--environment_max_steps={LIMIT * ENVIRONMENTS * EPISODES}", "--reproducible", "--seed=1"]
    assert main(["--op_mode=train", "--console=plain", "--nocurves", f"--results_dir={tmp_path}", *words, *flags]) == 0
    (folder,) = tmp_path.iterdir()
    with (folder / "episodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["length"]) for row in rows] == [LIMIT] * games
    together = {(int(row["agent_steps"]) - 1) // (ENVIRONMENTS * UNROLL) for row in rows}  # rounds in which games end
    assert (len(together) == EPISODES) == (not flags)
