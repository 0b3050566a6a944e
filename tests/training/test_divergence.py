"""A run whose loss or weights are not finite ends, and leaves its last good checkpoint."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from option_flags import Config
from processes.pool import RunFailedError
from replay.mix import Batch
from run_files.checkpoint import find_checkpoint, read_checkpoint
from tests.catch import make_catch
from tests.training.catch_runs import catch_run, reports, resume_run
from tests.training.some_run import LAYOUT, some_run
from training.checkpoint_saver import CheckpointSaver
from training.interval import Interval

BATCH = Batch(torch.zeros((1, LAYOUT.nbytes), dtype=torch.uint8), np.array([True]))
DIVERGING: dict[str, Any] = {"lr": 100.0, "lr_warmup_updates": 0, "gradient_clip_by_norm_threshold": 0.0}


def end_if_diverged(interval: Interval, updates: int, *, finite: bool = True, saved: bool, **flags: Any) -> None:
    learner = SimpleNamespace(updates=updates, is_finite=lambda: finite)
    progress = SimpleNamespace(agent_steps=0, parent_steps=0, interval=interval)
    saver = CheckpointSaver(some_run(Path(), config=Config.from_flags(flags), learner=learner, progress=progress))
    saver.saved_updates = 1 if saved else -1
    saver.end_if_diverged()


def interval_of(*losses: float, first_update: int = 1) -> Interval:
    interval = Interval(LAYOUT)
    for updates, loss in enumerate(losses, first_update):
        interval.add_update(BATCH, {"total_loss": torch.tensor(loss)}, updates)
    return interval


@pytest.mark.parametrize(
    ("losses", "first"),
    [
        ((), None),
        ((0.1, -3e38), None),
        ((0.1, math.nan, math.nan), 8),
        ((math.inf, 0.1), 7),
        ((0.1, 0.2, -math.inf, 0.2, math.nan), 9),
    ],
)
def test_the_first_update_with_a_loss_that_is_not_finite(losses: tuple[float, ...], first: int | None) -> None:
    interval = interval_of(*losses, first_update=7)
    assert interval.first_diverged_update() == first
    interval.begin(1.0, 20)
    assert interval.first_diverged_update() is None
    if first is not None:
        with pytest.raises(RunFailedError, match=rf"^the loss is not finite any more .* from update {first} on, and"):
            end_if_diverged(interval_of(*losses, first_update=7), 12, saved=True)


def test_finite_losses_and_weights_do_not_end_a_run() -> None:
    end_if_diverged(interval_of(0.1, 0.2), 3, saved=False)


def test_weights_that_are_not_finite_end_a_run_whose_losses_were_finite() -> None:
    with pytest.raises(
        RunFailedError, match=r"^the network's weights are not finite .* at update 3, and .* nothing was"
    ):
        end_if_diverged(interval_of(0.1), 3, finite=False, saved=False)


@pytest.mark.slow
def test_a_run_ends_at_the_next_report_although_no_save_is_due(tmp_path: Path) -> None:
    first = catch_run(tmp_path / "first", environment_max_steps=1_000)
    parent = find_checkpoint(str(first))
    more = {"environment_max_steps": 500_000, "save_model_period": 10**6, "results_dir": str(tmp_path / "second")}
    message = r"from update \d+ on.*checkpoints are complete; a smaller --lr"
    with pytest.raises(RunFailedError, match=message) as caught:
        resume_run(first, make_catch, **DIVERGING, **more)
    (second,) = (tmp_path / "second").iterdir()
    steps = [report["agent_steps"] for report in reports(second)]
    assert steps[-1] <= 1_000 + 2 * 400 + 8 * 10, "it ends with the first report after the first bad loss"
    assert find_checkpoint(str(second)).updates == parent.updates
    began = int(str(caught.value).split("from update ")[1].split(" ")[0])
    assert parent.updates < began <= reports(second)[-1]["updates"]


@pytest.mark.slow
def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    first = catch_run(tmp_path / "first", environment_max_steps=1_000)
    parent = find_checkpoint(str(first))
    more = {"environment_max_steps": 4_000, "save_model_period": 5, "results_dir": str(tmp_path / "second")}
    with pytest.raises(RunFailedError, match=r"not finite any more.*earlier checkpoints are complete"):
        resume_run(first, make_catch, report_period=10**6, **DIVERGING, **more)
    (second,) = (tmp_path / "second").iterdir()
    assert find_checkpoint(str(second)).updates < parent.updates + 5
    for path in (second / "checkpoints").glob("*.pt"):
        weights = read_checkpoint(path).content["learner"]["network"]
        assert all(bool(torch.isfinite(tensor).all()) for tensor in weights.values())
    assert reports(second), "the last interval is reported"


@pytest.mark.slow
def test_a_loss_that_is_not_finite_at_the_end_of_a_run_is_an_error(tmp_path: Path) -> None:
    """Neither a report nor a save was due before the end."""
    with pytest.raises(RunFailedError, match=r"not finite any more.*nothing was saved before"):
        catch_run(tmp_path, environment_max_steps=1_000, report_period=10**6, **DIVERGING)
    (folder,) = tmp_path.iterdir()
    assert not list((folder / "checkpoints").iterdir())
    messages = (folder / "messages.txt").read_text()
    assert "failed at 1,000 agent steps" in messages and "finished" not in messages
