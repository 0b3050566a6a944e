"""Runs whose GPU has too little memory, by errors that are raised in their updates."""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agents.training_batch import make_training_batch
from processes.pool import RunFailedError
from replay.mix import Batch
from run_files.checkpoint import find_checkpoint
from tests.agents.same_updates import out_of_memory
from tests.training.catch_runs import catch_run


def allow(monkeypatch: pytest.MonkeyPatch, fits: Callable[[Batch], bool]) -> None:
    """From now on, learners run out of memory for what does not fit."""

    def make_if_it_fits(part: Batch, *others: Any, **named: Any) -> Any:
        if not fits(part):
            raise out_of_memory()
        return make_training_batch(part, *others, **named)

    monkeypatch.setattr("agents.learner.make_training_batch", make_if_it_fits)


@pytest.mark.slow
def test_a_run_that_does_not_fit_at_all_saves_and_ends_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = count(1)
    allow(monkeypatch, lambda part: next(made) <= 4)
    sentence = "the GPU's memory is used up; a smaller --batch_size, --r_f_steps or --network would"
    with pytest.raises(RunFailedError, match=sentence):
        catch_run(tmp_path, environment_max_steps=4000, cuda_graphs=False)
    (folder,) = tmp_path.iterdir()
    assert find_checkpoint(str(folder)).updates == 4
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "failed" and sentence in summary["why"]


@pytest.mark.slow
def test_a_gpu_that_is_full_before_the_first_update_ends_the_run_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise out_of_memory()

    monkeypatch.setattr("training.train.make_learner", fail)
    sentence = "the GPU's memory is used up; a smaller --batch_size"
    with pytest.raises(RunFailedError, match=f"^{sentence}"):
        catch_run(tmp_path)
    (folder,) = tmp_path.iterdir()
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["status"], summary["updates"], summary["go_on"]) == ("failed", 0, None)
    assert summary["why"].startswith(sentence)
