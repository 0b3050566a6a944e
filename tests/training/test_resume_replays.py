"""Resumed runs load the saved replays of their parents where they can."""

from pathlib import Path

import pytest

from agents.spaces import make_unroll_layout
from option_flags import Config
from options.presets import FRESH_ALONE
from run_files.checkpoint import find_checkpoint, replay_name
from tests.catch import make_catch
from tests.training.catch_runs import catch_run, reports, resume_run
from tests.training.resumed_runs import copy_of, stop_at_once
from training import train as training
from training.resume import read_saved_replays

pytestmark = pytest.mark.slow


def test_a_run_is_resumed_with_other_replays(saved_run: Path) -> None:
    """They start empty, and their figures contain no draws from the old replays."""
    second = resume_run(saved_run, make_catch, environment_max_steps=1_400, replay_parameters=FRESH_ALONE)
    assert list(reports(second)[0]["replays"]) == ["0_queue"]


def test_batches_that_were_mixed_ahead_are_dropped_without_caching(tmp_path: Path) -> None:
    first = catch_run(tmp_path, environment_max_steps=400, reproducible=True, caching=True)
    second = resume_run(first, make_catch, environment_max_steps=600, caching=False)
    assert find_checkpoint(str(second)).agent_steps == 600


@pytest.mark.parametrize("state", ["newest", "older", "damaged", "missing"])
def test_saved_replays_are_loaded(
    tmp_path: Path, saved_run: Path, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    """If none can be loaded, updates start after a new warm-up."""
    first = copy_of(saved_run, tmp_path)
    saved = find_checkpoint(str(first))
    match state:
        case "older":
            saved.replay_path.rename(saved.replay_path.with_name(replay_name(saved.updates - 1)))
        case "damaged":
            saved.replay_path.write_bytes(saved.replay_path.read_bytes()[:-1])
        case "missing":
            saved.replay_path.unlink()
    second = resume_run(first, make_catch, environment_max_steps=1_200, console="plain")
    out = capsys.readouterr().out
    notes = {
        "older": "which is older than the checkpoint",
        "damaged": "is cut off",
        "missing": "the replays start empty: none were saved",
    }
    assert notes.get(state, "new games begin") in out
    loaded = state in {"newest", "older"}
    assert reports(second)[-1]["replays"]["1_standard"]["size"] == (40 if loaded else 20)
    assert (reports(second)[-1]["updates"] > saved.updates) == loaded


def test_saved_replays_are_kept_after_two_kills(
    tmp_path: Path, saved_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Replays are saved less often than checkpoints, so the loaded ones may be older. Two runs in a row are killed
    before they save replays of their own.
    """
    run = copy_of(saved_run, tmp_path)
    saved = find_checkpoint(str(run))
    saved.replay_path.rename(saved.replay_path.with_name(replay_name(saved.updates - 1)))
    with monkeypatch.context() as patched:
        patched.setattr(training, "training_loop", stop_at_once)
        for _ in range(2):
            run = resume_run(run, make_catch, environment_max_steps=1_200)
    last = resume_run(run, make_catch, environment_max_steps=1_200, console="plain")
    assert f"the replays are those of {replay_name(saved.updates - 1)}" in capsys.readouterr().out
    assert reports(last)[-1]["replays"]["1_standard"]["size"] == 40


def test_raw_replays_of_other_rewards_are_not_loaded_into_compressed_ones(
    saved_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = {"use_replay_compression": True, "lz4_compression_level": 3, "reward_clipping_method": "none"}
    second = resume_run(saved_run, make_catch, environment_max_steps=1_200, console="plain", **flags)
    out = capsys.readouterr().out
    assert "the replays start empty: the saved ones are of another layout or environment" in out
    assert "compressed\n" in out
    assert reports(second)[-1]["replays"]["1_standard"]["size"] == 20


def test_saved_replays_are_loaded_with_another_batch_size(saved_run: Path) -> None:
    """Only the queues start empty, because their sizes depend on the batch size."""
    run, updates = saved_run, find_checkpoint(str(saved_run)).updates
    for batch_size, steps in ((4, 1_200), (16, 1_600)):  # smaller, larger
        run = resume_run(run, make_catch, environment_max_steps=steps, batch_size=batch_size)
        last = reports(run)[-1]
        assert last["replays"]["1_standard"]["size"] == 40
        assert last["updates"] > updates
        updates = last["updates"]


def test_saved_replays_are_loaded_with_another_loss(saved_run: Path) -> None:
    """Only the queues start empty, because a circular buffer holds other unrolls than a queue."""
    run, updates = saved_run, find_checkpoint(str(saved_run)).updates
    for flags in ({"loss": "impact"}, {"loss": "vtrace"}):
        steps = find_checkpoint(str(run)).agent_steps + 400
        run = resume_run(run, make_catch, environment_max_steps=steps, **flags)
        last = reports(run)[-1]
        assert last["replays"]["1_standard"]["size"] == 40
        assert last["updates"] > updates
        assert ("clipped_share" in last) == (flags.get("loss") != "vtrace")
        updates = last["updates"]


def test_replays_that_are_newer_than_the_checkpoint_are_not_loaded(tmp_path: Path, saved_run: Path) -> None:
    """As where a run goes on from an earlier checkpoint than its last."""
    parent = find_checkpoint(str(copy_of(saved_run, tmp_path)))
    parent.replay_path.rename(parent.replay_path.with_name("replays_9999999999.bin"))
    config = Config.from_flags(parent.options)
    _, notes = read_saved_replays(parent, config, make_unroll_layout(config, make_catch))
    assert notes == ["the replays start empty: none were saved"]
