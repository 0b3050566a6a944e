"""Whole runs with two learners, in the processes of a test."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from learners.group import LearnerGroup
from option_flags import Config, merged
from run_files.checkpoint import Checkpoint, find_checkpoint
from tests.catch import make_catch
from tests.learners.groups import run_group
from tests.training.catch_runs import CATCH, MIXED, reports
from tests.training.resumed_runs import assert_same_run
from training.train import train

pytestmark = pytest.mark.slow

TWO: dict[str, Any] = {
    **CATCH,
    **{"learners": 2, "worker_count": 2, "envs_per_worker": 4, "replay_parameters": MIXED},
    "device": "cpu",  # a machine with one GPU has none for the second learner
}

REPRODUCIBLE: dict[str, Any] = {"reproducible": True, "learner_threads": 1}


def train_one(group: LearnerGroup, flags: dict[str, Any], parent: Path | None = None) -> Path:
    """One learner of a run, as main.py starts it."""
    checkpoint: Checkpoint | None = None
    if parent is not None:
        checkpoint = find_checkpoint(str(parent))
        own = {"op_mode": "train_w_load", "load_model_url": str(parent)}
        flags = merged(checkpoint.options, {**own, **flags})
    folder = train(Config.from_flags(flags), make_catch, checkpoint, learners=group)
    group.close()
    return folder


def run_two(results: Path, parent: Path | None = None, **flags: Any) -> Path:
    own = {**flags, "results_dir": str(results)}
    folders: list[Path] = run_group(train_one, {**TWO, **own} if parent is None else own, parent)
    assert folders[1] == folders[0] / "learner_1"
    return folders[0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_two(tmp_path_factory.mktemp("whole"), environment_max_steps=2400, **REPRODUCIBLE)


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_two(tmp_path_factory.mktemp("half"), environment_max_steps=1200, **REPRODUCIBLE)


def test_both_learners_play_and_learn(whole: Path) -> None:
    saved, own = find_checkpoint(str(whole)), find_checkpoint(str(whole / "learner_1"))
    last = reports(whole)[-1]
    assert last["agent_steps"] == saved.agent_steps == own.agent_steps == 2400
    planned = Config.from_flags({**TWO, "environment_max_steps": 2400}).planned_updates  # as many as one learner makes
    assert last["updates"] == saved.updates == own.updates == planned
    first_weights, other_weights = (each.content["learner"]["network"] for each in (saved, own))
    assert all(first_weights[name].equal(other_weights[name]) for name in first_weights)
    assert sum(report["unrolls_accepted"] for report in reports(whole)) == 2400 / CATCH["r_f_steps"]
    assert len(last["learners"]) == 2
    assert (whole / "summary.json").exists() and not (whole / "learner_1" / "summary.json").exists()
    rows = (whole / "episodes.csv").read_text().splitlines()[1:]
    assert {row.split(",")[-1] for row in rows} == {"0", "1"}, "games of both learners' workers"
    assert last["episodes"] == len(rows)


def test_a_reproducible_run_is_resumed_exactly(tmp_path: Path, whole: Path, half: Path) -> None:
    second = run_two(tmp_path, half, environment_max_steps=2400)
    assert_same_run(whole, half, second)
    assert_same_run(*(folder / "learner_1" for folder in (whole, half, second)))


def test_learners_with_unequal_queues_end_in_good_order(tmp_path: Path, half: Path) -> None:
    """The replays of learner 1 are lost, so learner 0 uses its share of the steps before."""
    first = tmp_path / "first"
    shutil.copytree(half, first, ignore=shutil.ignore_patterns("learner_1"))
    second = run_two(tmp_path, first, environment_max_steps=2410)
    summary = json.loads((second / "summary.json").read_text())
    assert summary["status"] == "finished" and "--environment_max_steps=2410" in summary["why"]
    assert 2300 < reports(second)[-1]["agent_steps"] == summary["agent_steps"]
    own = find_checkpoint(str(second / "learner_1"))
    assert (own.agent_steps, own.updates) == (summary["agent_steps"], summary["updates"])


def test_a_run_goes_on_with_another_number_of_learners(tmp_path: Path, half: Path) -> None:
    own = {"learners": 1, "results_dir": str(tmp_path), "environment_max_steps": 1600}
    (with_one,) = run_group(train_one, own, half, size=1)
    with_two = run_two(tmp_path, with_one, learners=2, environment_max_steps=2000)
    before = find_checkpoint(str(half))
    for folder, steps in ((with_one, 1600), (with_two, 2000)):
        saved = find_checkpoint(str(folder))
        assert saved.agent_steps == steps and saved.updates > before.updates
        assert "the replays start empty: the saved ones are of another" in (folder / "messages.txt").read_text()
        before = saved
