"""With --reproducible, resumed runs equal uninterrupted runs bit for bit."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from option_flags import Config
from options.presets import FRESH_ALONE
from run_files.checkpoint import find_checkpoint, write_checkpoint
from run_files.replay_file import read_tensor_file
from tests.catch import make_catch
from tests.exploring import exploring
from tests.training.catch_runs import catch_run, reports, resume_run
from tests.training.resumed_runs import SMALL, assert_same_run, copy_of, ending_at, stop_at_once
from training import run as run_module
from training import train as training
from training.train import train
from wrappers.atari import make_atari
from wrappers.environment import MakeEnvironment

pytestmark = pytest.mark.slow

NO_QUEUE = '[{"type": "standard", "capacity": 40, "sample_ratio": 1.0}]'
TWO_STANDARDS = (
    '[{"type": "queue", "capacity": 3, "sample_ratio": 0.5},'
    ' {"type": "standard", "capacity": 40, "sample_ratio": 0.25},'
    ' {"type": "standard", "capacity": 23, "sample_ratio": 0.25}]'
)


@pytest.mark.parametrize(
    ("make_environment", "cuts", "flags"),
    [
        (
            make_atari,
            (15, 435, 705),
            {
                **{"replay_parameters": TWO_STANDARDS, "keep_checkpoints": 1, "optimizer": "adam"},
                **{"env": "BreakoutNoFrameskip-v4", "use_kl_mask": True, "exploring_share": 0.5},
            },
        ),
        (
            make_atari,
            (415, 735),
            {
                **{"replay_parameters": NO_QUEUE, "use_lstm": True, "lstm_size": 16},
                **{"env": "QbertNoFrameskip-v4", "repeat_action_probability": 0.25},
                "use_replay_compression": True,
            },
        ),
        (
            make_catch,
            (415, 735),
            {
                **{"interaction": "asynchronous", "action_delay": 6, "idle_action": "random"},
                **{"replay_parameters": TWO_STANDARDS},
            },
        ),
        (
            make_catch,
            (415, 735),
            {
                **{"interaction": "sequential", "action_delay": 7, "idle_action": "repeat", "use_lstm": True},
                **{"lstm_size": 16, "use_replay_compression": True},
            },
        ),
    ],
    ids=[
        *("two-standards-adam-breakout-mask", "no-queue-lstm-qbert-sticky-compressed"),
        *("asynchronous", "sequential-lstm"),
    ],
)
def test_a_run_in_parts_equals_the_whole_run_bit_for_bit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_environment: MakeEnvironment,
    cuts: Sequence[int],
    flags: dict[str, Any],
) -> None:
    """The cuts fall between unrolls of one round, between updates, between reports, and into the warm-up."""
    make_environment = exploring(make_environment, monkeypatch)
    base = {**SMALL, "reproducible": True, "results_dir": str(tmp_path), **flags}
    whole = train(Config.from_flags({**base, "environment_max_steps": cuts[-1]}), make_environment)
    part = train(Config.from_flags({**base, "environment_max_steps": cuts[0]}), make_environment)
    parts = [part]
    for cut in cuts[1:]:
        part = resume_run(part, make_environment, environment_max_steps=cut)
        parts.append(part)
    assert find_checkpoint(str(whole)).updates > 20
    if "exploring_share" in flags:
        assert max(report.get("held_share", 0) for report in reports(whole)) > 0.05
    assert_same_run(whole, *parts)


ALL_FOUR = json.dumps(
    [
        {"type": "queue", "capacity": 3, "sample_ratio": 0.25},
        {"type": "standard", "capacity": 40, "sample_ratio": 0.25},
        {"type": "attentive", "capacity": 30, "sample_ratio": 0.25, "lambda_batch_multiplier": 3},
        {"type": "elite", "capacity": 25, "sample_ratio": 0.25, "lambda_batch_multiplier": 3}
        | {"insert_strategy": "elite_insertion", "dist_function": "cos_dist"},
    ]
)


@pytest.mark.parametrize("caching", [False, True])
def test_a_run_in_parts_whose_replays_rank_equals_the_whole_run_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caching: bool
) -> None:
    """λ depends on the updates that the first run planned, even if that run is interrupted."""
    monkeypatch.setattr(Config, "planned_updates", 300)
    flags = {"replay_parameters": ALL_FOUR, "reproducible": True, "caching": caching, "cache_output_buffer_size": 2}
    more: dict[str, Any] = {**flags, "r_f_steps": 5, "frames_stacked": 2, "report_period": 130}
    whole = catch_run(tmp_path, environment_max_steps=700, **more)
    with monkeypatch.context() as patched:
        patched.setattr(run_module, "Progress", ending_at(455))
        part = catch_run(tmp_path, environment_max_steps=700, **more)
    with monkeypatch.context() as patched:
        patched.setattr(Config, "planned_updates", 1_000)
        rest = resume_run(part, make_catch)
    assert find_checkpoint(str(whole)).updates > 40
    assert_same_run(whole, part, rest)
    for name, figures in reports(rest)[-1]["replays"].items():
        ranks = name in {"2_attentive", "3_elite"}
        assert (figures["distance_drawn"] is not None) == (1 < figures["lambda"] < 3) == ranks
    prepared = read_tensor_file(find_checkpoint(str(rest)).replay_path)["mix"]["prepared"]
    assert len(prepared) == (2 if caching else 0)


@pytest.mark.parametrize(
    "flags",
    [
        {"replay_parameters": FRESH_ALONE, "popart": True},
        {"use_lstm": True, "lstm_size": 8, "use_kl_mask": True, "caching": True},
    ],
    ids=["queue-popart", "mixed-lstm-mask-caching"],
)
def test_a_run_in_parts_with_impact_equals_the_whole_run_bit_for_bit(tmp_path: Path, flags: dict[str, Any]) -> None:
    """The cut is in the middle of a period of the target, while the circular buffer holds half-used batches."""
    impact = {"loss": "impact", "impact_batches": 3, "impact_uses": 4, "impact_target_period": 8}
    small = {"r_f_steps": 5, "impact_epsilon": 0.01}  # so that ratios are clipped after few updates
    more: dict[str, Any] = {**impact, **small, "reproducible": True, **flags}
    whole = catch_run(tmp_path, environment_max_steps=640, **more)
    part = catch_run(tmp_path, environment_max_steps=300, **more)
    rest = resume_run(part, make_catch, environment_max_steps=640)
    half, end = find_checkpoint(str(part)), find_checkpoint(str(rest))
    assert end.updates - half.updates > 16 and half.updates > 16
    assert half.updates % 8 and end.updates % 8
    ring = read_tensor_file(half.replay_path)["mix"]["replays"][0]
    assert any(ring["left"]) and all(ring["used"])
    assert_same_run(whole, part, rest)
    assert any(0 < report["clipped_share"] < 1 for report in reports(rest))


@pytest.fixture(scope="module")
def exact_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 steps, made once for several tests; a test that changes files must use `copy_of`."""
    return catch_run(tmp_path_factory.mktemp("exact"), reproducible=True, environment_max_steps=1_000)


def test_a_run_that_stops_before_its_first_unroll_loses_nothing(
    tmp_path: Path, exact_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = catch_run(tmp_path, reproducible=True, environment_max_steps=1_400)
    parent = copy_of(exact_run, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(training, "training_loop", stop_at_once)
        child = resume_run(parent, make_catch, environment_max_steps=1_400, keep_checkpoints=7)
    shutil.rmtree(parent / "checkpoints")  # the child has its own copies
    grandchild = resume_run(child, make_catch)
    assert find_checkpoint(str(grandchild)).options["keep_checkpoints"] == 7
    assert_same_run(whole, parent, child, grandchild)


def test_with_replays_of_another_step_the_resume_is_not_exact(
    tmp_path: Path, exact_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkpoint written again before the next update keeps its name; a kill came before its replays were saved."""
    folder = copy_of(exact_run, tmp_path)
    saved = find_checkpoint(str(folder))
    later = {**saved.content, "progress": {**saved.content["progress"], "agent_steps": saved.agent_steps + 40}}
    write_checkpoint(saved.path, later)
    resume_run(folder, make_catch, environment_max_steps=1_400, console="plain")
    out = capsys.readouterr().out
    assert "new games begin" in out
    assert f"the replays are those of {saved.replay_path.name}, which is older" in out


def test_games_with_other_environment_options_are_not_continued(
    tmp_path: Path, exact_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy_of(exact_run, tmp_path)
    changed = {"repeat_action_probability": 0.5, "episodic_life": False, "noop_threshold": 0}
    child = resume_run(folder, make_catch, environment_max_steps=1_200, console="plain", **changed)
    assert "new games begin" in capsys.readouterr().out
    assert reports(child)[-1]["worker_restarts"] == 0
