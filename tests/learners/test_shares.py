"""What each learner of a run gets, and how many there are."""

from pathlib import Path
from typing import Any

import pytest
import torch

from learners import shares
from learners.rank import LearnerRank, learner_rank
from learners.shares import parent_of, part_of, settle_learners
from option_flags import Config
from options.rules import UsageError
from run_files.checkpoint import checkpoint_name, find_checkpoint, write_checkpoint
from tests.run_files.some_checkpoint import some_content, some_learner, some_progress
from tests.training.catch_runs import MIXED


def test_ranks_come_from_the_variables_of_torchrun() -> None:
    variables = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    there = {**variables, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    assert learner_rank(there) == LearnerRank(index=3, size=4, local_index=1, local_size=2)
    assert learner_rank(variables) is None


@pytest.mark.parametrize(
    ("flags", "learners"),
    [({}, 4), ({"worker_count": 2}, 2), ({"worker_count": 3}, 2), ({"device": "mps"}, 1), ({"device": "cuda:1"}, 1)],
)
def test_the_number_of_learners_fits_the_machine_and_the_workers(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any], learners: int
) -> None:
    monkeypatch.setattr(shares, "usable_cores", lambda: 16)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    config = Config.from_flags({"learners": 0, "batch_size": 8, **flags})
    assert settle_learners(config, None).learners.learners == learners


@pytest.mark.parametrize(
    ("flags", "rank", "sentence"),
    [
        ({"learners": 4}, None, "--learners=4 needs as many GPUs, and this machine has 3; --learners=2 would be right"),
        ({}, LearnerRank(0, 8, 0, 4), "4 learners on this machine need as many GPUs, and this machine has 3; fewer on"),
        ({"device": "cuda:0"}, LearnerRank(0, 2, 0, 2), "2 learners on this machine need a device for each learner"),
    ],
)
def test_learners_without_a_gpu_of_their_own_are_refused(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any], rank: LearnerRank | None, sentence: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    with pytest.raises(UsageError, match=sentence):
        settle_learners(Config.from_flags({"batch_size": 8, **flags}), rank)
    one_here = LearnerRank(1, 2, 0, 1)
    assert settle_learners(Config.from_flags({"batch_size": 8, "device": "cuda:0"}), one_here).learners.learners == 2


@pytest.mark.parametrize(("batch_size", "learners"), [(4, 1), (7, 1), (8, 2), (12, 3), (32, 8), (64, 8)])
def test_each_gpu_gets_a_learner_with_at_least_four_unrolls(
    monkeypatch: pytest.MonkeyPatch, batch_size: int, learners: int
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    config = Config.from_flags({"learners": 0, "batch_size": batch_size})
    assert settle_learners(config, None).learners.learners == learners


def test_each_learner_gets_its_share() -> None:
    config = Config.from_flags(
        {"learners": 2, "batch_size": 8, "worker_count": 5, "replay_parameters": MIXED, "seed": 1, "tensorboard": True}
    )
    first, second = (part_of(config, LearnerRank(rank, 2, rank, 2)) for rank in range(2))
    assert first.replay.shares == second.replay.shares == (2, 2)
    assert [replay.capacity for replay in first.replay.replays] == [2, 20]
    assert (first.workers.worker_count, second.workers.worker_count) == (3, 2)
    assert (first.seed, first.report.tensorboard) == (1, True)
    assert second.seed != 1 and not second.report.tensorboard
    assert part_of(config, LearnerRank()) is config


@pytest.mark.parametrize(("workers", "counts"), [(5, [3, 2]), (7, [3, 2, 2]), (4, [1, 1, 1, 1])])
def test_all_workers_are_divided_among_the_learners(workers: int, counts: list[int]) -> None:
    learners = len(counts)
    config = Config.from_flags({"learners": learners, "batch_size": 24, "worker_count": workers, "seed": 1})
    ranks = [LearnerRank(rank, learners, rank, learners) for rank in range(learners)]
    assert [part_of(config, rank).workers.worker_count for rank in ranks] == counts


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
