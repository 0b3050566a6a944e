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


def weights_of_another_network(content: Content) -> None:
    content["learner"]["network"] = {"weight": torch.zeros(3)}


def an_empty_learner(content: Content) -> None:
    content["learner"] = {}


def other_observations(content: Content) -> None:
    content["spaces"]["vector_size"] = 9


def an_option_of_another_type(content: Content) -> None:
    content["options"]["lr"] = "fast"


def an_unknown_option(content: Content) -> None:
    content["options"]["warp"] = 9


def counters_that_are_words(content: Content) -> None:
    content["progress"]["recent_returns"] = ["many"]


def words_and_a_goal(content: Content) -> None:
    counters_that_are_words(content)
    content["options"]["stop_at_return"] = 5.0


def a_counter_below_0(content: Content) -> None:
    content["progress"]["episodes"] = -1


def a_maximum_that_is_a_list(content: Content) -> None:
    content["progress"]["return_max"] = [1.0]


def no_counters(content: Content) -> None:
    content["progress"] = {}


def nothing_planned(content: Content) -> None:
    content["planned_updates"] = 0


def foreign_games(content: Content) -> None:
    content["in_flight"] = {"snapshots": 3}


CHANGES: list[tuple[Callable[[Content], None], str]] = [
    (nan_weights, "value_head.bias has numbers that are NaN or infinite"),
    (weights_of_another_shape, "size mismatch for value_head.weight"),
    (weights_of_another_network, "'projection'"),
    (an_empty_learner, "'network'"),
    (other_observations, "vector_size is 0 instead of 9"),
    (an_option_of_another_type, "--lr must be a number above 0"),
    (an_unknown_option, "--warp is not a known flag"),
    (counters_that_are_words, "many"),
    (words_and_a_goal, "many"),
    (a_counter_below_0, "a counter is below 0"),
    (a_maximum_that_is_a_list, "TypeError"),
    (no_counters, "'agent_steps'"),
    (nothing_planned, "planned_updates is 0"),
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
def test_a_replays_file_that_somebody_has_edited_is_not_the_fault_of_the_checkpoint(
    tmp_path: Path, saved_run: Path
) -> None:
    path = find_checkpoint(str(copy_of(saved_run, tmp_path))).replay_path
    saved = read_tensor_file(path)
    write_tensor_file(path, {**saved, "mix": {**saved["mix"], "replays": []}})
    with pytest.raises(UsageError) as caught:
        resume_run(tmp_path / "parent", make_catch, results_dir=str(tmp_path), environment_max_steps=1_100)
    assert str(caught.value).startswith(f"--load_model_url: {path} has contents that no run writes")
    assert str(caught.value).endswith("; the run can be resumed without this file.")
    assert [folder.name for folder in tmp_path.iterdir()] == ["parent"], "no run has been started"


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["flipped", "foreign"])
def test_replays_that_cannot_be_used_are_left_out(
    tmp_path: Path, saved_run: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    changed = copy_of(saved_run, tmp_path)
    path = find_checkpoint(str(changed)).replay_path
    if damage == "flipped":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    else:
        write_tensor_file(path, {**read_tensor_file(path), "unroll": "of another layout"})
    resume_run(changed, make_catch, environment_max_steps=1_100, console="plain")
    said = {"flipped": f"{path} is cut off, damaged", "foreign": "the saved ones are of another layout"}
    assert f"the replays start empty: {said[damage]}" in capsys.readouterr().out
