"""A run of Breakout under --protocol=machado: its checkpoint, a resumed run, and a test of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from main import main
from option_flags import Config
from options.presets import FRESH_ALONE, PRESETS
from run_files.checkpoint import find_checkpoint

pytestmark = pytest.mark.slow

FRESH = f"--replay_parameters={FRESH_ALONE}"
SMALL = [FRESH, "--worker_count=1", "--envs_per_worker=4", "--r_f_steps=5", "--batch_size=4", "--nocurves", "--seed=1"]


def run(*words: str) -> int:
    return main([*words, "--console=plain"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    words = ["--env=BreakoutNoFrameskip-v4", "--protocol=machado", "--max_game_frames=400", "--factored_actions"]
    assert run("--op_mode=train", *words, *SMALL, "--environment_max_steps=200", f"--results_dir={results}") == 0
    (found,) = results.iterdir()
    return found


def environment_of(folder: Path) -> dict[str, Any]:
    options = json.loads((folder / "config.json").read_text())["options"]
    return {name: options[name] for name in (*PRESETS["protocol"]["machado"], "protocol")}


WANTED = {**PRESETS["protocol"]["machado"], "protocol": "machado", "max_game_frames": 400}


def test_its_flags_are_in_its_files_and_its_network_has_all_actions(folder: Path) -> None:
    assert environment_of(folder) == WANTED
    saved = find_checkpoint(str(folder))
    assert {name: saved.options[name] for name in WANTED} == WANTED
    weights = saved.content["learner"]["network"]
    assert weights["policy_head.weight"].shape[0] == 18
    assert weights["policy_head.shared.weight"].shape[0] == 8 and weights["policy_head.shared.weight"].any()
    assert saved.content["spaces"]["action_names"][17] == "DOWNLEFTFIRE"
    said = (folder / "messages.txt").read_text()
    protocol = "machado protocol with --max_game_frames=400"
    assert f"BreakoutNoFrameskip-v4, sees 4 pictures of 84×84×1, 18 actions, {protocol}, seed 1" in said


def test_a_resumed_run_keeps_it(folder: Path, tmp_path: Path) -> None:
    words = [f"--load_model_url={folder}", f"--results_dir={tmp_path}", "--environment_max_steps=300"]
    assert run("--op_mode=train_w_load", *words, "--protocol=machado") == 0
    (child,) = tmp_path.iterdir()
    assert environment_of(child) == WANTED


def test_a_test_plays_by_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"--load_model_url={folder}", "--test_episode_count=2", "--worker_count=1", "--max_game_frames=300"]
    for more, sticky in (([], 0.25), (["--repeat_action_probability=0"], 0.0)):
        assert run("--op_mode=test", *words, *more) == 0
        newest = max(folder.glob("test_*.json"), key=lambda path: path.stat().st_mtime_ns)
        result = json.loads(newest.read_text())
        assert (result["protocol"], result["full_action_space"], result["fire_on_reset"]) == ("machado", True, False)
        assert (result["noop_threshold"], result["repeat_action_probability"]) == (0, sticky)
        assert 0 < max(result["lengths"]) <= 75, "300 frames"
        newest.unlink()
    assert "machado protocol with --max_game_frames=300, seed" in capsys.readouterr().out
    assert run("--op_mode=test", *words, "--protocol=classic", "--full_action_space") == 0
    assert "classic protocol with --full_action_space --max_game_frames=300, seed" in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["test", "train_w_load"])
def test_another_action_space_is_refused(folder: Path, capsys: pytest.CaptureFixture[str], mode: str) -> None:
    words = [f"--op_mode={mode}", f"--load_model_url={folder}"]
    for flag, subject in (
        ("--nofull_action_space", "--full_action_space=False"),
        ("--protocol=classic", "--protocol=classic with its --full_action_space=False"),
    ):
        assert main([*words, flag]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"main.py: {subject} does not fit a checkpoint with True; leave the flag out")
        assert said.count("\n") == 1


def test_its_weights_start_a_classic_run(folder: Path, tmp_path: Path) -> None:
    """Of its flags, only those of the network are inherited; with another number of actions, the policy head is new."""
    words = ["--load_weights_only", f"--load_model_url={folder}", "--env=BreakoutNoFrameskip-v4"]
    more = [*SMALL, f"--results_dir={tmp_path}", "--environment_max_steps=100"]
    assert run("--op_mode=train_w_load", *words, *more) == 0
    (child,) = tmp_path.iterdir()
    assert Config.from_flags(environment_of(child)) == Config()
    assert find_checkpoint(str(child)).content["learner"]["network"]["policy_head.weight"].shape[0] == 4
