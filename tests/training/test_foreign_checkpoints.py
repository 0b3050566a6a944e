"""Checkpoints whose checksums are right and that hold something else than the run needs: refused in one sentence.

Damaged files are in tests/run_files/test_checkpoint.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluation.score_checkpoint import score_checkpoint
from option_flags import Config
from options.rules import UsageError
from run_files.checkpoint import find_checkpoint
from run_files.replay_file import read_tensor_file, write_tensor_file
from tests.catch import make_catch
from tests.training.catch_runs import resume_run
from tests.training.resumed_runs import copy_of

Content = dict[str, Any]


def nan_weights(content: Content) -> None:
    content["learner"]["network"]["value_head.bias"].fill_(torch.nan)


def weights_of_another_shape(content: Content) -> None:
    content["learner"]["network"]["value_head.weight"] = torch.zeros(1, 3)


def an_empty_learner(content: Content) -> None:
    content["learner"] = {}


def other_observations(content: Content) -> None:
    content["spaces"]["vector_size"] = 9


def an_unknown_option(content: Content) -> None:
    content["options"]["warp"] = 9


def counters_that_are_words(content: Content) -> None:
    content["progress"]["recent_games"] = [{"return": "many"}]


def foreign_games(content: Content) -> None:
    content["in_flight"] = {"snapshots": 3}


CHANGES: list[tuple[Callable[[Content], None], str]] = [
    (nan_weights, "value_head.bias has numbers that are NaN or infinite"),
    (weights_of_another_shape, "size mismatch for value_head.weight"),
    (an_empty_learner, "'network'"),
    (other_observations, "vector_size is 0 instead of 9"),
    (an_unknown_option, "--warp is not a known flag"),
    (counters_that_are_words, "many"),
    (foreign_games, "TypeError"),
]


def edited(saved_run: Path, results: Path, change: Callable[[Content], None]) -> Path:
    """The checkpoint of a copy of the run, with this change and right checksums."""
    saved = find_checkpoint(str(copy_of(saved_run, results)))
    change(saved.content)
    torch.save(saved.content, saved.path)
    return saved.path


@pytest.mark.slow
@pytest.mark.parametrize(("change", "why"), CHANGES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_checkpoint_that_somebody_has_edited_is_one_sentence_and_no_run(
    tmp_path: Path, saved_run: Path, change: Callable[[Content], None], why: str
) -> None:
    path = edited(saved_run, tmp_path, change)
    before = path.read_bytes()
    with pytest.raises(UsageError) as caught:
        resume_run(path, make_catch, results_dir=str(tmp_path), environment_max_steps=2_000, reproducible=True)
    error = str(caught.value)
    assert why in error and "--load_model_url: " in error and "\n" not in error
    assert path.read_bytes() == before
    assert [folder.name for folder in tmp_path.iterdir()] == ["parent"], "no run has been started"


@pytest.mark.slow
def test_tests_and_new_runs_refuse_weights_that_are_not_finite(tmp_path: Path, saved_run: Path) -> None:
    path = edited(saved_run, tmp_path, nan_weights)
    with pytest.raises(UsageError, match="value_head.bias has numbers that are NaN"):
        resume_run(path, make_catch, load_weights_only=True, results_dir=str(tmp_path))
    parent = find_checkpoint(str(path))
    config = Config.from_flags({**parent.played_options, "op_mode": "test", "load_model_url": str(path)})
    with pytest.raises(UsageError, match="value_head.bias has numbers that are NaN"):
        score_checkpoint(config, make_catch, parent)
    assert [folder.name for folder in tmp_path.iterdir()] == ["parent"], "no run has been started"


@pytest.mark.slow
def test_replays_of_another_layout_are_left_out(
    tmp_path: Path, saved_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = copy_of(saved_run, tmp_path)
    path = find_checkpoint(str(changed)).replay_path
    write_tensor_file(path, {**read_tensor_file(path), "unroll": "of another layout"})
    resume_run(changed, make_catch, environment_max_steps=1_100, console="plain")
    assert "the replays start empty: the saved ones are of another layout" in capsys.readouterr().out
