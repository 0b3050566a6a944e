"""When and what is saved, and what becomes of a run whose disk is full."""

import errno
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from agents import checkpoint as checkpoint_files
from agents.checkpoint import BEST, find_checkpoint, read_checkpoint
from option_flags import Config
from tests.workers.catch_runs import catch_run
from workers import saver
from workers.progress import Progress
from workers.saver import Saver
from workers.stop_request import StopRequest


def test_a_best_policy_that_could_not_be_saved_is_not_the_one_to_beat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first checkpoints meet a full disk, and the policy gets no better after it: the best is the best saved."""
    real, refused = checkpoint_files.write_checkpoint, 0

    def write(path: Path, content: dict[str, Any]) -> None:
        nonlocal refused
        if refused < 2:
            refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, content)

    monkeypatch.setattr(checkpoint_files, "write_checkpoint", write)
    monkeypatch.setattr(Progress, "return_mean", 0.25)
    folder = catch_run(tmp_path, environment_max_steps=2_000, save_model_period=15)
    assert refused == 2
    assert read_checkpoint(folder / "checkpoints" / BEST).content["progress"]["best_return_mean"] == 0.25


def test_replays_that_could_not_be_saved_cost_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disk may have room for the one and not for the others."""

    def write(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(saver, "write_tensor_file", write)
    folder = catch_run(tmp_path, environment_max_steps=1_000, save_replay=True, console="plain")
    out = capsys.readouterr().out
    assert "the replays could not be written (No space left on device); the checkpoint is whole without them" in out
    assert "no checkpoint could be written" not in out and "go on with: " in out.splitlines()[-1]
    assert find_checkpoint(str(folder)).agent_steps == 1_000


def test_a_save_that_failed_is_not_tried_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, tries = 0.0, []
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def write(self: Saver, in_flight: object) -> None:
        tries.append(now)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Saver, "_write", write)
    config = Config.from_flags({"save_replay": True, "save_replay_minutes": 1.0, "save_model_minutes": 10.0})
    learner, progress = SimpleNamespace(updates=5), SimpleNamespace(agent_steps=100)
    nothing: Any = None
    failing = Saver(
        *(tmp_path, config, nothing, 0, 10, cast(Any, learner), nothing, cast(Any, progress), nothing),
        *(StopRequest(), lambda line: None),
    )
    for now in np.arange(0.0, 200.0, 0.5):  # noqa: B007
        failing.tick()
    assert tries == [60.5, 121.0, 181.5]
