"""Whole runs with two learners, in the processes of a test."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from learners.group import LearnerGroup
from learners.rank import LearnerRank
from learners.shares import parent_of
from option_flags import Config
from options.presets import merged
from run_files.checkpoint import Checkpoint, checkpoint_name, find_checkpoint, write_checkpoint
from tests.catch import make_catch
from tests.learners.groups import run_group
from tests.run_files.some_checkpoint import some_content, some_learner, some_progress
from tests.training.catch_runs import CATCH, MIXED, reports
from tests.training.resumed_runs import assert_same_run
from training.train import train

pytestmark = pytest.mark.slow

TWO: dict[str, Any] = {
    **CATCH,
    **{"learners": 2, "worker_count": 2, "envs_per_worker": 4, "replay_parameters": MIXED},
    "device": "cpu",  # a machine with one GPU has none for the second learner
}


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


def test_both_learners_play_and_learn(tmp_path: Path) -> None:
    folder = run_two(tmp_path, environment_max_steps=4000)
    saved, own = find_checkpoint(str(folder)), find_checkpoint(str(folder / "learner_1"))
    last = reports(folder)[-1]
    assert last["agent_steps"] == saved.agent_steps == own.agent_steps == 4000
    planned = Config.from_flags({**TWO, "environment_max_steps": 4000}).planned_updates  # as many as one learner makes
    assert last["updates"] == saved.updates == own.updates == planned
    first_weights, other_weights = (each.content["learner"]["network"] for each in (saved, own))
    assert all(first_weights[name].equal(other_weights[name]) for name in first_weights)
    assert sum(report["unrolls_accepted"] for report in reports(folder)) == 4000 / CATCH["r_f_steps"]
    assert len(last["learners"]) == 2
    assert (folder / "summary.json").exists() and not (folder / "learner_1" / "summary.json").exists()
    rows = (folder / "episodes.csv").read_text().splitlines()[1:]
    assert {row.split(",")[-1] for row in rows} == {"0", "1"}, "games of both learners' workers"
    assert last["episodes"] == len(rows)


def test_a_reproducible_run_is_resumed_exactly(tmp_path: Path) -> None:
    flags: dict[str, Any] = {"reproducible": True, "learner_threads": 1}
    whole = run_two(tmp_path / "whole", environment_max_steps=2400, **flags)
    first = run_two(tmp_path / "parts", environment_max_steps=1200, **flags)
    second = run_two(tmp_path / "parts", first, environment_max_steps=2400)
    assert_same_run(whole, first, second)
    assert_same_run(*(folder / "learner_1" for folder in (whole, first, second)))


def test_learners_with_unequal_queues_use_all_steps_and_end_in_good_order(tmp_path: Path) -> None:
    """The replays of learner 1 are lost, so it needs more unrolls than learner 0 for the same updates."""
    first = run_two(tmp_path, environment_max_steps=1200, reproducible=True, learner_threads=1)
    shutil.rmtree(first / "learner_1")
    second = run_two(tmp_path, first, environment_max_steps=2410)
    summary = json.loads((second / "summary.json").read_text())
    assert (summary["status"], summary["why"]) == ("finished", "--environment_max_steps=2410 is reached")
    assert reports(second)[-1]["agent_steps"] == summary["agent_steps"] >= 2410
    own = find_checkpoint(str(second / "learner_1"))
    assert (own.agent_steps, own.updates) == (summary["agent_steps"], summary["updates"])


@pytest.mark.parametrize("after", [1, 2])
def test_a_run_goes_on_with_another_number_of_learners(tmp_path: Path, after: int) -> None:
    flags: dict[str, Any] = {"environment_max_steps": 2000, "save_replay": True}
    if after == 1:
        first = run_two(tmp_path, **flags)
        (second,) = run_group(train_one, {"learners": 1, "environment_max_steps": 4000}, first, size=1)
    else:
        (first,) = run_group(train_one, {**TWO, **flags, "learners": 1, "results_dir": str(tmp_path)}, size=1)
        second = run_two(tmp_path, first, learners=2, environment_max_steps=4000)
    saved = find_checkpoint(str(second))
    assert saved.agent_steps == 4000
    assert saved.updates > find_checkpoint(str(first)).updates
    assert "the replays start empty: the saved ones are of another" in (second / "messages.txt").read_text()


def test_all_learners_resume_with_the_weights_of_the_runs_checkpoint(tmp_path: Path) -> None:
    """Learner 1's own best.pt may be of another update: its mean return is that of its own games."""
    second = LearnerRank(1, 2, 1, 2)
    for folder, updates in ((tmp_path, 3), (tmp_path / "learner_1", 5)):
        (folder / "checkpoints").mkdir(parents=True)
        learner = some_learner({"weights": torch.full((1,), float(updates))}, updates)
        write_checkpoint(folder / "checkpoints" / "best.pt", some_content(updates, learner=learner))
    parent = find_checkpoint(str(tmp_path / "checkpoints" / "best.pt"))
    without = parent_of(second, parent)
    assert without.content["learner"] == parent.content["learner"] and without.content["in_flight"] is None
    own_path = tmp_path / "learner_1" / "checkpoints" / checkpoint_name(3)
    own_games = some_progress(4321, 3)
    write_checkpoint(own_path, some_content(3, learner=some_learner({}, 3), progress=own_games))
    own = parent_of(second, parent)
    assert own.path == own_path and own.agent_steps == 4321
    assert own.content["learner"] == parent.content["learner"]
