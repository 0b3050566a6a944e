"""Runs of environments with pictures, vectors and every kind of action: learned, saved, resumed, scored and filmed."""

from pathlib import Path
from typing import Any

import pytest

from evaluation.score_checkpoint import score_checkpoint
from option_flags import Config
from options.rules import UsageError
from replay.unroll_layout import ActionKind
from run_files.checkpoint import find_checkpoint
from tests.scripted_spaces import MakeScripted
from tests.training.catch_runs import CATCH, reports, resume_run
from training.train import train

pytestmark = pytest.mark.slow

EVERY_REPLAY = (
    '[{"type": "queue", "capacity": 1, "sample_ratio": 0.25},'
    ' {"type": "standard", "capacity": 20, "sample_ratio": 0.25},'
    ' {"type": "attentive", "capacity": 20, "sample_ratio": 0.25, "lambda_batch_multiplier": 3},'
    ' {"type": "elite", "capacity": 20, "sample_ratio": 0.25, "lambda_batch_multiplier": 3,'
    ' "insert_strategy": "elite_insertion"}]'
)
SCRIPTED = {**CATCH, "env": "module:Scripted-v0", "replay_parameters": EVERY_REPLAY, "entropy_loss_weight": 0.0}


def scripted_run(results: Path, make: MakeScripted, **flags: Any) -> Path:
    return train(Config.from_flags({**SCRIPTED, "results_dir": str(results), **flags}), make)


@pytest.mark.parametrize(
    ("kind", "pictures", "vectors"),
    [("discrete", True, False), ("product", False, True), ("gaussian", False, True)],
)
def test_every_kind_of_environment_is_learned(tmp_path: Path, kind: ActionKind, pictures: bool, vectors: bool) -> None:
    """A step is rewarded with 0 for the action that the observation names, and with less the further it is."""
    make = MakeScripted(pictures, vectors, kind)
    flags = {"environment_max_steps": 4_000, "replay_parameters": CATCH["replay_parameters"]}
    folder = scripted_run(tmp_path, make, **flags, optimizer="adam", lr=3e-3)
    returns = [report["return_mean"] for report in reports(folder) if report["return_mean"] is not None]
    assert returns[-1] > returns[0] / 2 > -5


@pytest.mark.parametrize(("kind", "use_lstm"), [("product", False), ("gaussian", True)])
def test_runs_with_every_replay_are_saved_resumed_and_scored(
    tmp_path: Path, kind: ActionKind, use_lstm: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    make = MakeScripted(True, True, kind)
    flags = {"use_lstm": use_lstm, "lstm_size": 8, "use_kl_mask": True, "use_replay_compression": True}
    first = scripted_run(tmp_path, make, environment_max_steps=600, save_replay=True, **flags)
    second = resume_run(first, make, environment_max_steps=800, console="plain")
    last = reports(second)[-1]
    assert last["updates"] > find_checkpoint(str(first)).updates
    assert last["replays"]["2_attentive"]["size"] == last["replays"]["3_elite"]["size"] == 20
    assert "the replays start empty" not in capsys.readouterr().out
    parent = find_checkpoint(str(second))
    given = {"op_mode": "test", "load_model_url": str(second), "test_episode_count": 2, "render": True}
    score_checkpoint(Config.from_flags({**parent.played_options, **given}), make, parent)
    assert list(second.glob("videos/*.mp4"))


def test_a_reproducible_run_says_that_its_episodes_cannot_be_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make = MakeScripted(False, True, "discrete")
    flags = {"environment_max_steps": 400, "reproducible": True, "console": "plain"}
    first = scripted_run(tmp_path, make, **flags)
    assert "the state of module:Scripted-v0 cannot be saved" in capsys.readouterr().out
    second = resume_run(first, make, environment_max_steps=600)
    assert reports(second)[-1]["agent_steps"] == 600
    out = capsys.readouterr().out
    assert "new games begin" in out and "continue exactly" not in out


def test_another_kind_of_observation_or_action_is_refused_in_one_sentence(tmp_path: Path) -> None:
    first = scripted_run(tmp_path, MakeScripted(False, True, "discrete"), environment_max_steps=200)
    others = [MakeScripted(False, True, "product"), MakeScripted(True, True, "discrete")]
    more_actions = MakeScripted(False, True, "discrete", sizes=(4,))
    for other in (*others, more_actions):
        with pytest.raises(UsageError, match="other observations or actions than that of the checkpoint"):
            resume_run(first, other, environment_max_steps=1_600)
        checkpoint = find_checkpoint(str(first))
        test = Config.from_flags({**checkpoint.played_options, "op_mode": "test", "load_model_url": str(first)})
        with pytest.raises(UsageError, match="other observations or actions than that of the checkpoint"):
            score_checkpoint(test, other, checkpoint)
    tuned = {"load_weights_only": True, "environment_max_steps": 200}
    with pytest.raises(
        UsageError, match=r"^--load_weights_only: .* other observations .*\(frame_stack is 1 instead of 0"
    ):
        resume_run(first, others[1], **tuned)
    resume_run(first, more_actions, **tuned)
