"""What a node says that cannot play, without Ray: it is examined in this process, and its actor is made here."""

import asyncio
import importlib.metadata
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.spaces import make_unroll_layout
from cluster.node_actor import CHECKOUT_VARIABLE, ROOT, NodeActor, code_version, examine_node
from cluster.node_player import check_player, played_code
from option_flags import Config
from options.rules import UsageError
from replay.unroll_layout import UnrollLayout
from tests.catch import make_catch
from tests.cluster.test_intake import MACHINE
from tests.training.catch_runs import CATCH
from workers.worker import PlaySetup
from wrappers.make_environment import make_environment

LAYOUT = UnrollLayout(unroll_length=1, frame_stack=1, frame_shape=(1, 1, 1), action_sizes=(1,))
MODULE = """
import gymnasium
import torch

class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, True, False, {}

gymnasium.register("Walk-v0", Walk)

def same(environment):
    return environment

def torso(space):
    return torch.nn.Linear(3, 4)
"""
NAMES = ("the_users_walk", "the_users_wrapper", "the_users_network")


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The actor changes its process."""
    monkeypatch.delenv(CHECKOUT_VARIABLE, raising=False)
    monkeypatch.chdir(Path.cwd())
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_no_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, said = examine_node(str(tmp_path), code_version())
    assert said is not None
    assert f"it has no checkout of this program at {tmp_path}; one there, or {CHECKOUT_VARIABLE}" in said


def test_another_version_of_the_code() -> None:
    _, said = examine_node(str(ROOT), "0123456789abcdef")
    assert said is not None and "is another version" in said and "the same commit would be right" in said


def test_a_checkout_that_the_node_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHECKOUT_VARIABLE, str(ROOT))
    assert examine_node("/nowhere", code_version()) == (str(ROOT), None)


def test_another_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = pickle.dumps((PlaySetup(Config.from_flags(CATCH), make_catch, LAYOUT, MACHINE), {}))
    actor = NodeActor(str(ROOT), "cluster.node_player", "NodePlayer", spec, 1, 1)
    with pytest.raises(UsageError, match="other observations or actions than the learner's"):
        asyncio.run(actor.call("figures"))
    assert Path.cwd() == ROOT, "its workers are found there"


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("ALE/NoSuchGame-v5", "it cannot make the games: --env=ALE/NoSuchGame-v5"),
        ("no_such_package:Game-v0", "no_such_package"),
    ],
)
@pytest.mark.slow
def test_games_that_the_node_lacks(env: str, words: str) -> None:
    setup = PlaySetup(Config.from_flags({**CATCH, "env": env}), make_environment, LAYOUT, MACHINE)
    with pytest.raises(UsageError, match=words):
        check_player(setup, {}, workers=1)


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.from_flags(CATCH)
    setup = PlaySetup(config, make_catch, make_unroll_layout(config, make_catch), MACHINE)
    check_player(setup, {}, workers=1)
    monkeypatch.setattr("machine.capacity.usable_memory", lambda: 100 << 20)
    with pytest.raises(UsageError, match="the processes of this run need .* --node_workers"):
        check_player(setup, {}, workers=3)


@pytest.fixture
def own_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlaySetup:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in NAMES:
        Path(f"{name}.py").write_text(MODULE)
        monkeypatch.delitem(sys.modules, name, raising=False)
    walk, wrapper, network = NAMES
    names = {"env": f"{walk}:Walk-v0", "env_wrapper": f"{wrapper}:same", "network": f"{network}:torso"}
    flags: dict[str, Any] = {"envs_per_worker": 2, "r_f_steps": 5, "seed": 1, **names}
    config = Config.from_flags(flags)
    return PlaySetup(config, make_environment, make_unroll_layout(config, make_environment), MACHINE)


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
@pytest.mark.slow
def test_modules_of_the_user(own_setup: PlaySetup) -> None:
    code = played_code(own_setup.config)
    assert set(code) == {"gymnasium", *NAMES}
    check_player(own_setup, code, workers=1)
    for name in NAMES:
        Path(f"{name}.py").write_text(f"{MODULE}\nGRAVITY = 3\n")
        with pytest.raises(UsageError, match=f"^its {name} has source files "):
            check_player(own_setup, code, workers=1)
        Path(f"{name}.py").write_text(MODULE)


@pytest.mark.parametrize(
    ("env", "packages"),
    [
        ("PongNoFrameskip-v4", {"gymnasium"}),
        ("ale_py:ALE/Pong-v5", {"ale_py", "gymnasium"}),
    ],
)
def test_packages(env: str, packages: set[str]) -> None:
    found = played_code(Config.from_flags({"env": env}))
    assert set(found) == packages
    assert found["gymnasium"] == f"version {importlib.metadata.version('gymnasium')}"


def test_another_version_of_a_package() -> None:
    config = Config.from_flags({**CATCH, "env": "CartPole-v1", "envs_per_worker": 2})
    layout = make_unroll_layout(config, make_environment)
    installed = importlib.metadata.version("gymnasium")
    said = f"^its gymnasium has version {installed}, and the learner's has version 0.1; the same would be right$"
    with pytest.raises(UsageError, match=said):
        check_player(PlaySetup(config, make_environment, layout, MACHINE), {"gymnasium": "version 0.1"}, workers=1)
