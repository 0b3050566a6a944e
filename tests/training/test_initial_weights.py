"""New runs that start from the weights of another run."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch

from main import main
from option_flags import Config, EnvironmentOptions
from run_files.checkpoint import find_checkpoint, inherited_options
from run_files.run_reader import read_history
from tests.catch import Catch, make_catch
from tests.training.catch_runs import CATCH, catch_run, reports, resume_run
from tests.training.resumed_runs import stop_at_once
from training import train as training
from training.train import train
from wrappers.atari import ScoreKeeper
from wrappers.environment import MakeEnvironment

pytestmark = pytest.mark.slow

LSTM = {"use_lstm": True, "lstm_size": 8}
HEAD = {"policy_head.weight", "policy_head.bias"}


def make_wide_catch(options: EnvironmentOptions, seed: int, watch: object = None) -> gymnasium.Env[Any, Any]:
    """Catch with two more actions, which move the paddle by more than a cell."""
    game = Catch(seed)
    game.action_space = gymnasium.spaces.Discrete(5)  # type: ignore[assignment]
    return ScoreKeeper(game)


def tuned_run(source: Path, results: Path, make_environment: MakeEnvironment, **flags: Any) -> Path:
    """A new run from the weights of `source`, with the flags that main.py takes from its checkpoint."""
    parent = find_checkpoint(str(source))
    own = {"op_mode": "train_w_load", "load_model_url": str(source), "load_weights_only": True}
    small = {name: value for name, value in CATCH.items() if name != "frames_stacked"} | {"results_dir": str(results)}
    given = {**small, **own, **flags}
    return train(Config.from_flags({**inherited_options(parent, given), **given}), make_environment, parent)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(find_checkpoint(str(folder)).content["learner"]["network"])


def test_a_run_from_the_weights_of_another_is_a_new_run(
    tmp_path: Path, saved_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = find_checkpoint(str(saved_run))
    tuned = tuned_run(saved_run, tmp_path, make_catch, environment_max_steps=600, lr=1e-4, seed=9, console="plain")
    assert f"weights from {source.path}, after 1,000 agent steps of PongNoFrameskip-v4" in capsys.readouterr().out
    described = json.loads((tuned / "config.json").read_text())
    assert described["parent"] is None
    assert described["weights_from"] == {
        "run": str(saved_run),
        "checkpoint": str(source.path),
        "env": "PongNoFrameskip-v4",
        "agent_steps": 1_000,
        "updates": source.updates,
    }
    assert (described["options"]["lr"], described["options"]["seed"]) == (1e-4, 9)
    saved = find_checkpoint(str(tuned))
    assert saved.agent_steps == 600 and saved.content["resumes"] == 0
    assert saved.content["learner"]["background_updates"] == source.updates, "of the same game, so it is kept"
    assert reports(tuned)[-1]["episodes"] == 120
    assert read_history(tuned).agent_steps == 600 and not read_history(tuned).ancestors

    resumed = resume_run(tuned, make_catch, environment_max_steps=900)
    assert find_checkpoint(str(resumed)).agent_steps == 900
    assert json.loads((resumed / "config.json").read_text())["parent"]["run"] == str(tuned)
    assert read_history(resumed).weights_from == str(source.path)


@pytest.fixture(scope="module")
def lstm_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return catch_run(tmp_path_factory.mktemp("lstm"), environment_max_steps=400, **LSTM)


@pytest.mark.parametrize(("make_environment", "new"), [(make_catch, set()), (make_wide_catch, HEAD)])
def test_only_what_depends_on_the_actions_is_new(
    tmp_path: Path,
    lstm_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make_environment: MakeEnvironment,
    new: set[str],
) -> None:
    source = lstm_run
    monkeypatch.setattr(training, "training_loop", stop_at_once)
    tuned = tuned_run(source, tmp_path, make_environment, env="BreakoutNoFrameskip-v4", console="plain")
    learner = find_checkpoint(str(tuned)).content["learner"]
    assert learner["background_updates"] == 0, "of another game, so it is measured anew"
    before, after = weights(source), weights(tuned)
    differing = {name for name in before if before[name].shape != after[name].shape}
    assert differing == (new | {"lstm.weight_ih_l0"} if new else set())
    same = [name for name in before if name not in (*differing, "projection")]
    assert all(torch.equal(before[name], after[name]) for name in same)
    assert ("the policy head is new: 5 actions instead of 3" in capsys.readouterr().out) == bool(new)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--network=conv3"], "--network=conv3 does not fit a checkpoint with auto; leave the flag out, or start"),
        (["--frames_stacked=2"], "--frames_stacked=2 does not fit a checkpoint with 1; leave the flag out, or start"),
        (["--op_mode=test"], "--load_weights_only needs --op_mode=train_w_load: a new run begins"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_sentence(
    tmp_path: Path, saved_run: Path, capfd: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    mode = [] if "--op_mode=test" in words else ["--op_mode=train_w_load"]
    flags = [f"--load_model_url={saved_run}", "--load_weights_only", f"--results_dir={tmp_path / 'results'}"]
    flags.append("--console=off")
    assert main([*mode, *flags, *words]) == 2
    out, errors = capfd.readouterr()
    assert out == "" and errors.count("\n") == 1 and errors.startswith(f"main.py: {sentence}")
    assert not (tmp_path / "results").exists()


def test_a_run_from_weights_gets_the_settings_for_a_gpu_like_any_new_run(
    saved_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[Config, list[str]]] = []
    monkeypatch.setattr("machine.machine_setup.choose_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(
        training, "train", lambda config, make, parent, notes, learners: started.append((config, notes))
    )
    words = ["--op_mode=train_w_load", f"--load_model_url={saved_run}", "--console=off"]
    assert main([*words, "--load_weights_only"]) == 0
    assert main([*words, "--environment_max_steps=2000"]) == 0
    (tuned, notes), (resumed, _) = started
    assert (tuned.run.settings, tuned.replay.batch_size, tuned.environment.frames_stacked) == ("atari_gpu", 16, 1)
    assert notes[0].startswith("settings: atari_gpu")
    assert (resumed.run.settings, resumed.replay.batch_size) == ("auto", 8)
