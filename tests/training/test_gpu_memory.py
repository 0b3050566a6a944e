"""Runs whose GPU has too little memory, by errors that are raised in their updates."""

import contextlib
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from agents.learner import Learner
from agents.training_batch import make_training_batch
from replay.batch_mix import Batch
from run_files.checkpoint import find_checkpoint
from tests.agents.small_gpu import out_of_memory
from tests.training.catch_runs import catch_run, reports
from training.gpu_memory import explained
from training.make_replays import uploader
from workers.failures import RunFailedError


def allow(monkeypatch: pytest.MonkeyPatch, fits: Callable[[Batch], bool]) -> None:
    """From now on, learners run out of memory for what does not fit."""

    def make_if_it_fits(part: Batch, *others: Any) -> Any:
        if not fits(part):
            raise out_of_memory()
        return make_training_batch(part, *others)

    monkeypatch.setattr("agents.learner.make_training_batch", make_if_it_fits)


@pytest.mark.slow
def test_a_run_goes_on_with_parts_and_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of one seed in which the batches fit, do not fit, and fit no more from some update on."""
    flags: dict[str, Any] = {"environment_max_steps": 2400, "reproducible": True}
    whole = reports(catch_run(tmp_path / "whole", **flags))
    allow(monkeypatch, lambda part: len(part.fresh) <= 4)
    folder = catch_run(tmp_path / "parts", **flags)
    messages = (folder / "messages.txt").read_text()
    assert messages.count("the GPU's memory is too small for 8 unrolls at once") == 1
    divided = reports(folder)
    assert {report["batch_parts"] for report in whole} == {1}
    assert [report["batch_parts"] for report in divided if report["updates"]] == [2] * len(divided)
    first = [runs[0]["total_loss"] for runs in (divided, whole)]
    assert first[0] == pytest.approx(first[1], rel=1e-3), "later, rounding has led to other games"


@pytest.mark.slow
def test_a_run_that_does_not_fit_at_all_saves_and_ends_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = count(1)
    allow(monkeypatch, lambda part: next(made) <= 4)
    sentence = (
        "used up, although a batch is computed in 8 parts; a smaller --batch_size, --r_f_steps or --network would"
    )
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


@pytest.mark.slow
def test_a_half_made_step_is_not_saved(tmp_path: Path) -> None:
    steps = []

    def fail(*_: Any) -> None:
        steps.append(0)
        if len(steps) == 8:
            raise out_of_memory()

    handle = register_optimizer_step_pre_hook(fail)
    try:
        with pytest.raises(
            RunFailedError, match=r"in the middle of a step .* not saved; .* checkpoints are complete\."
        ):
            catch_run(tmp_path, environment_max_steps=4000, save_model_period=3)
    finally:
        handle.remove()
    (folder,) = tmp_path.iterdir()
    assert find_checkpoint(str(folder)).updates == 6


def test_memory_that_is_used_up_beside_an_update_is_explained_too() -> None:
    learner = cast(Learner, SimpleNamespace(batch_parts=1))
    with pytest.raises(RunFailedError, match="^the GPU's memory is used up; a smaller --batch"), explained(learner):
        raise out_of_memory()


def test_a_batch_that_cannot_be_copied_ahead_of_time_is_left_to_the_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise out_of_memory()

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: None)
    monkeypatch.setattr(torch.cuda, "stream", contextlib.nullcontext)
    upload = uploader(SimpleNamespace(type="cuda"))  # type: ignore[arg-type]
    assert upload(SimpleNamespace(to=fail)) is None  # type: ignore[arg-type]
