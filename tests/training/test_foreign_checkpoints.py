"""Checkpoints whose checksums are right and that hold something else than the run needs: refused in one sentence.

Damaged files are in tests/run_files/test_checkpoint.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import main
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


def averages_of_another_network(content: Content) -> None:
    for averages in content["learner"]["optimizer"]["state"].values():
        averages["square_avg"] = torch.zeros(2, 2)


def other_observations(content: Content) -> None:
    content["spaces"]["vector_size"] = 9


def an_option_of_another_type(content: Content) -> None:
    content["options"]["lr"] = "fast"


def an_unknown_option(content: Content) -> None:
    content["options"]["warp"] = 9


def counters_that_are_words(content: Content) -> None:
    content["progress"]["recent_returns"] = ["many"]


def no_counters(content: Content) -> None:
    content["progress"] = {}


CHANGES: list[tuple[Callable[[Content], None], str]] = [
    (nan_weights, "value_head.bias has numbers that are NaN or infinite"),
    (weights_of_another_shape, "size mismatch for value_head.weight"),
    (weights_of_another_network, "'projection'"),
    (an_empty_learner, "'network'"),
    (averages_of_another_network, "square_avg of the optimizer has the shape [2, 2]"),
    (other_observations, "vector_size is 4 instead of 9"),
    (an_option_of_another_type, "--lr must be a number above 0"),
    (an_unknown_option, "--warp is not a known flag"),
    (counters_that_are_words, "many"),
    (no_counters, "'agent_steps'"),
]


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("cartpole")
    flags = ["--env=CartPole-v1", "--environment_max_steps=400", "--worker_count=1", "--batch_size=2", "--r_f_steps=10"]
    assert main.main([*flags, "--console=off", "--nocurves", "--seed=1", f"--results_dir={results}"]) == 0
    (run,) = results.iterdir()
    return run


@pytest.mark.slow
@pytest.mark.parametrize(("change", "why"), CHANGES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_checkpoint_that_somebody_has_edited_is_one_sentence(
    tmp_path: Path, cartpole: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Content], None], why: str
) -> None:
    changed = copy_of(cartpole, tmp_path)
    saved = find_checkpoint(str(changed))
    change(saved.content)
    torch.save(saved.content, saved.path)
    before = saved.path.read_bytes()
    capsys.readouterr()
    words = ["--op_mode=train_w_load", f"--load_model_url={saved.path}", "--environment_max_steps=800"]
    assert main.main([*words, f"--results_dir={tmp_path}", "--console=off", "--nocurves"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and why in error and "--load_model_url: " in error
    assert saved.path.read_bytes() == before


@pytest.mark.slow
def test_a_test_and_new_runs_refuse_weights_that_are_not_finite(
    tmp_path: Path, cartpole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = copy_of(cartpole, tmp_path)
    saved = find_checkpoint(str(changed))
    nan_weights(saved.content)
    torch.save(saved.content, saved.path)
    for mode in (["--op_mode=test"], ["--op_mode=train_w_load", "--load_weights_only"]):
        capsys.readouterr()
        assert main.main([*mode, f"--load_model_url={saved.path}", f"--results_dir={tmp_path}"]) == 2
        output = capsys.readouterr()
        assert output.out == "" and output.err.count("\n") == 1 and "value_head.bias" in output.err
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
    said = {"flipped": f"{path} is cut off, damaged", "foreign": "the saved ones have another layout"}
    assert f"the replays start empty: {said[damage]}" in capsys.readouterr().out
