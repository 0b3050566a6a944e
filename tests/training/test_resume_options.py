"""Options of resumed runs."""

import json
import shutil
from pathlib import Path

import pytest

from option_flags import Config
from options.rules import UsageError
from run_files.checkpoint import BEST_EVAL, find_checkpoint
from run_files.run_folder import BEST, CHECKPOINTS
from tests.catch import make_catch
from tests.options.words import parse
from tests.training.catch_runs import resume_run
from tests.training.resumed_runs import copy_of
from training.train import train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("content", [None, b"\xff\0\n{}\n"])
def test_a_run_is_resumed_without_its_curves(tmp_path: Path, saved_run: Path, content: bytes | None) -> None:
    parent = copy_of(saved_run, tmp_path)
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        (parent / name).unlink(missing_ok=True)
        if content is not None:
            (parent / name).write_bytes(content)
    shutil.copy(parent / CHECKPOINTS / BEST, parent / CHECKPOINTS / BEST_EVAL)
    child = resume_run(parent, make_catch, environment_max_steps=1_200)
    assert find_checkpoint(str(child)).agent_steps == 1_200
    assert (child / CHECKPOINTS / BEST_EVAL).exists(), "the best evaluated policy stays"


def test_a_child_names_its_parent_and_the_step(saved_run: Path) -> None:
    first = saved_run
    saved = find_checkpoint(str(first))
    second = resume_run(first, make_catch, environment_max_steps=1_400)
    description = json.loads((second / "config.json").read_text())
    assert description["parent"] == {
        "run": str(first),
        "checkpoint": str(saved.path),
        "agent_steps": 1_000,
        "updates": saved.updates,
    }
    assert description["options"]["environment_max_steps"] == 1_400
    assert json.loads((first / "config.json").read_text())["parent"] is None


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("env", "BreakoutNoFrameskip-v4"),
        ("network", "conv3"),
        ("use_lstm", True),
        ("lstm_size", 17),
        ("frames_stacked", 2),
        ("grayscaling_frames", False),
        ("frame_scale_resolution", "42,42"),
        ("environment_max_steps", 1_000),
    ],
)
def test_options_that_cannot_change_are_refused_in_one_sentence(saved_run: Path, flag: str, value: object) -> None:
    folders = set(saved_run.parent.iterdir())
    with pytest.raises(UsageError, match=rf"^--{flag}={value} .*\.$"):
        resume_run(saved_run, make_catch, **{"environment_max_steps": 2_000, flag: value})
    assert set(saved_run.parent.iterdir()) == folders


def test_the_command_line_takes_precedence_over_the_checkpoint_and_that_over_the_defaults(saved_run: Path) -> None:
    saved = find_checkpoint(str(saved_run))
    words = ["--op_mode=train_w_load", f"--load_model_url={saved_run}", "--environment_max_steps=1400", "--lr=0.125"]
    config = parse(words, saved.options)
    assert config.optimizer.lr == 0.125
    assert config.workers.envs_per_worker == 8
    assert config.loss == Config().loss
    child = find_checkpoint(str(train(config, make_catch, saved)))
    assert child.options == {**saved.options, "environment_max_steps": 1_400, "lr": 0.125}
