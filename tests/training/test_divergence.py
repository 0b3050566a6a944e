"""A run whose loss or weights are not finite ends, and leaves its last good checkpoint."""

import math
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from option_flags import Config
from processes.pool import RunFailedError
from replay.mix import Batch
from run_files.checkpoint import checkpoint_name, find_checkpoint, read_checkpoint
from tests.catch import make_catch
from tests.training.catch_runs import catch_run, reports, resume_run
from tests.training.some_run import LAYOUT, some_run
from training.checkpoint_saver import CheckpointSaver
from training.interval import Interval

BATCH = Batch(torch.zeros((1, LAYOUT.nbytes), dtype=torch.uint8), np.array([True]))
DIVERGING: dict[str, Any] = {"lr": 100.0, "lr_warmup_updates": 0, "gradient_clip_by_norm_threshold": 0.0}


def interval_of(*losses: float) -> Interval:
    interval = Interval(Config(), LAYOUT)
    for updates, loss in enumerate(losses, start=1):
        interval.add_update(BATCH, {"total_loss": torch.tensor(loss), "of_no_states": torch.tensor(math.nan)}, updates)
    return interval


@pytest.mark.parametrize(
    ("losses", "finite", "saved", "message"),
    [
        ((), True, True, None),
        ((0.1, -3e38), True, True, None),
        ((0.1, math.nan, math.nan), True, True, r"^the loss is not finite .* at update 12, .* earlier checkpoints are"),
        ((math.inf, 0.1), True, False, r"^the loss is not finite .* nothing was saved before"),
        ((0.1, math.inf, -math.inf, 0.2), True, True, "^the loss is not finite"),
        ((0.1,), False, False, r"^the network's weights are not finite .* at update 12, and .* nothing was"),
    ],
)
def test_a_loss_or_weights_that_are_not_finite_end_a_run(
    losses: tuple[float, ...], finite: bool, saved: bool, message: str | None, tmp_path: Path
) -> None:
    interval = interval_of(*losses)
    progress = SimpleNamespace(agent_steps=0, parent_steps=0, interval=interval)
    learner = SimpleNamespace(updates=12, is_finite=lambda: finite)
    saver = CheckpointSaver(some_run(tmp_path, learner=learner, progress=progress))
    if saved:
        saver.saved_updates = 1
        saver.folder.mkdir()
        (saver.folder / checkpoint_name(1)).touch()
    with nullcontext() if message is None else pytest.raises(RunFailedError, match=message):
        saver.end_if_diverged()
    interval.begin(1.0, 20)
    assert not interval.has_diverged


@pytest.mark.slow
@pytest.mark.parametrize("period", [10**6, 5])
def test_a_run_ends_at_the_next_report_or_checkpoint_and_saves_nothing_more(
    tmp_path: Path, saved_run: Path, period: int
) -> None:
    parent = find_checkpoint(str(saved_run))
    more = {"environment_max_steps": 500_000, "save_model_period": period, "results_dir": str(tmp_path)}
    reporting = {"report_period": 400 if period > 5 else 10**6, "save_replay": False}
    with pytest.raises(RunFailedError, match=r"not finite any more.*earlier checkpoints are complete; a smaller --lr"):
        resume_run(saved_run, make_catch, **DIVERGING, **more, **reporting)
    (second,) = tmp_path.iterdir()
    assert find_checkpoint(str(second)).updates < parent.updates + 5
    for path in (second / "checkpoints").glob("*.pt"):
        weights = read_checkpoint(path).content["learner"]["network"]
        assert all(bool(torch.isfinite(tensor).all()) for tensor in weights.values())
    assert reports(second)[-1]["agent_steps"] <= 1_000 + 3 * 400, "the last interval is reported"


@pytest.mark.slow
def test_a_loss_that_is_not_finite_at_the_end_of_a_run_is_an_error(tmp_path: Path) -> None:
    """Neither a report nor a save was due before the end."""
    with pytest.raises(RunFailedError, match=r"not finite any more.*nothing was saved before"):
        catch_run(tmp_path, environment_max_steps=1_000, report_period=10**6, **DIVERGING)
    (folder,) = tmp_path.iterdir()
    assert not list((folder / "checkpoints").iterdir())
    messages = (folder / "messages.txt").read_text()
    assert "failed at 1,000 agent steps" in messages and "finished" not in messages
