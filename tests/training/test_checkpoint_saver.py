"""When checkpoints and replays are saved, and what happens if the disk is full."""

import errno
import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from machine.stop_signals import StopSignals
from option_flags import Config
from processes.pool import RunFailedError
from run_files import checkpoint as checkpoint_files
from run_files.checkpoint import find_checkpoint, read_checkpoint
from run_files.run_folder import BEST
from tests.training.catch_runs import catch_run
from tests.training.some_run import some_run
from training import checkpoint_saver as saver
from training.checkpoint_saver import WITH_REPLAYS, CheckpointSaver
from training.progress import Progress

pytestmark = pytest.mark.slow

FINITE = SimpleNamespace(has_diverged=False)  # an interval whose losses are finite


def save_if_due(saver: CheckpointSaver) -> bool:
    due = saver.due()
    if due:
        saver.save(with_replays=due == WITH_REPLAYS)
    return bool(due)


def test_a_policy_that_could_not_be_saved_does_not_count_as_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full for the first two checkpoints, and the policy does not improve after them."""
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


def test_a_checkpoint_is_kept_if_its_replays_cannot_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk may have room for the checkpoint only."""

    def write(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(saver, "write_tensor_file", write)
    folder = catch_run(tmp_path, environment_max_steps=1_000, save_replay=True, console="plain")
    out = capsys.readouterr().out
    assert "the replays could not be written (No space left on device); the checkpoint is complete without them" in out
    assert "no checkpoint could be written" not in out and "resume with: " in out.splitlines()[-1]
    assert find_checkpoint(str(folder)).agent_steps == 1_000


def test_a_copy_of_replays_that_a_user_has_made_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saver, "write_tensor_file", lambda path, *_: path.write_bytes(b"replays"))
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for name in ("replays_0000000004.bin", "replays_good.bin", "replays_0000000004_copy.bin"):
        (folder / name).touch()
    one: Any = SimpleNamespace(updates=5, agent_steps=100, fingerprint="", state_dict=dict)
    CheckpointSaver(some_run(tmp_path, layout=one, learner=one, mix=one, progress=one))._write_replays()
    names = {path.name for path in folder.iterdir()}
    assert names == {"replays_0000000005.bin", "replays_good.bin", "replays_0000000004_copy.bin"}


def test_a_run_whose_last_checkpoint_cannot_be_written_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, written = checkpoint_files.write_checkpoint, 0

    def write(path: Path, content: dict[str, Any]) -> None:
        nonlocal written
        if written == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, content)
        written += 1

    monkeypatch.setattr(checkpoint_files, "write_checkpoint", write)
    with pytest.raises(
        RunFailedError, match=r"^at the end, no checkpoint could be written \(No space left on device\); "
    ):
        catch_run(tmp_path, environment_max_steps=2_000, save_model_period=15, console="plain")
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "summary.json").read_text())["status"] == "failed"
    assert find_checkpoint(str(folder)).updates == 15
    assert capsys.readouterr().out.splitlines()[-1].startswith("resume with: ")


def test_a_checkpoint_folder_that_somebody_deletes_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = checkpoint_files.keep_newest, 0

    def keep(folder: Path, count: int) -> None:
        nonlocal written
        written += 1
        real(folder, count)
        if written == 1:
            shutil.rmtree(folder)

    monkeypatch.setattr(checkpoint_files, "keep_newest", keep)
    folder = catch_run(tmp_path, environment_max_steps=2_000, save_model_period=15)
    assert written > 1 and find_checkpoint(str(folder)).updates > 15


def test_a_failed_save_is_not_repeated_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, tries = 0.0, []
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def write(self: CheckpointSaver, in_flight: object) -> None:
        tries.append(now)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(CheckpointSaver, "_write", write)
    config = Config.from_flags({"save_replay": True, "save_replay_minutes": 1.0, "save_model_minutes": 10.0})
    learner, progress = (
        SimpleNamespace(updates=5, is_finite=lambda: True),
        SimpleNamespace(agent_steps=100, parent_steps=100, interval=FINITE),
    )
    run = some_run(tmp_path, config=config, learner=learner, progress=progress)
    failing = CheckpointSaver(run)
    for now in np.arange(0.0, 200.0, 0.5):  # noqa: B007
        save_if_due(failing)
    assert tries == [60.5, 121.0, 181.5]
    failing.saved_updates = 1
    (failing.folder / checkpoint_files.checkpoint_name(1)).touch()
    failing.save(with_replays=False)
    failed = "no checkpoint could be written (No space left on device); "
    assert run.said == 3 * [f"{failed}there is none yet to go on from"] + [f"{failed}the last complete one is kept"]


def test_a_checkpoint_is_due_after_so_many_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, saves = SimpleNamespace(updates=0, is_finite=lambda: True), []

    def write(self: CheckpointSaver, in_flight: object) -> None:
        saves.append(learner.updates)

    monkeypatch.setattr(CheckpointSaver, "_write", write)
    config = Config().replace_flags(save_model_period=5)
    saver_of_a_run = CheckpointSaver(some_run(tmp_path, config=config, learner=learner))
    for updates in (1, 4, 5, 6, 9, 10, 11, 17, 21, 22):
        learner.updates = updates
        save_if_due(saver_of_a_run)
    assert saves == [5, 10, 17, 22]


def test_a_signal_during_a_save_causes_another_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, saves = StopSignals(), []

    def write(self: CheckpointSaver, in_flight: object) -> None:
        saves.append(stop.save_now)
        stop.save_now = len(saves) == 1  # SIGUSR1 once more

    monkeypatch.setattr(CheckpointSaver, "_write", write)
    learner = SimpleNamespace(updates=5, is_finite=lambda: True)
    asked = CheckpointSaver(some_run(tmp_path, learner=learner, stop=stop))
    stop.save_now = True
    for _ in range(3):
        save_if_due(asked)
    assert saves == [False, False]


def test_a_resumed_run_saves_once_it_has_done_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first update may come before its first step, from saved replays."""
    now, saves = 0.0, []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    learner = SimpleNamespace(updates=5, is_finite=lambda: True)
    progress = SimpleNamespace(agent_steps=100, parent_steps=100, interval=FINITE)
    run = some_run(tmp_path, config=Config().replace_flags(save_model_minutes=5.0), learner=learner, progress=progress)
    run.resume.count = 1
    resumed = CheckpointSaver(run)

    def write(self: CheckpointSaver, in_flight: object) -> None:
        saves.append((learner.updates, progress.agent_steps))
        self.saved_updates = learner.updates

    monkeypatch.setattr(CheckpointSaver, "_write", write)
    dues = 0
    for now in np.arange(0.0, 1000.0, 0.5):  # noqa: B007
        dues += save_if_due(resumed)
    assert (dues, saves) == (3, []), "three times five minutes have passed without a step"
    learner.updates = 6
    resumed.save(with_replays=False)
    progress.agent_steps = 120
    resumed.save(with_replays=False)
    assert saves == [(6, 100), (6, 120)]


def test_a_best_checkpoint_that_cannot_be_renewed_is_said_and_older_ones_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a file system without links, which is nearly full, there is no room for a copy."""

    def link(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint_files, "link", link)
    monkeypatch.setattr(Progress, "return_mean", 0.25)
    folder = catch_run(tmp_path, environment_max_steps=2_000, save_model_period=15, keep_checkpoints=2, console="plain")
    names = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert len(names) == 2 and BEST not in names
    out = capsys.readouterr().out
    assert "the newest checkpoint is complete; older ones could not be deleted, or best.pt not be renewed (No" in out
    assert "no checkpoint could be written" not in out
    assert find_checkpoint(str(folder)).content["progress"]["agent_steps"] == 2_000
