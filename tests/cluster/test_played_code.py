"""What a node says whose packages, or modules of the user's, are others than the learner's."""

import importlib.metadata
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.spaces import make_unroll_layout
from cluster.node_player import PlayerSpec, played_code, why_not_playable
from option_flags import Config
from tests.training.catch_runs import CATCH as CATCH_RUN
from wrappers.make_environment import make_environment

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


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayerSpec:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in NAMES:
        Path(f"{name}.py").write_text(MODULE)
        monkeypatch.delitem(sys.modules, name, raising=False)
    walk, wrapper, network = NAMES
    names = {"env": f"{walk}:Walk-v0", "env_wrapper": f"{wrapper}:same", "network": f"{network}:torso"}
    flags: dict[str, Any] = {"envs_per_worker": 2, "r_f_steps": 5, "seed": 1, **names}
    config = Config.from_flags(flags)
    return PlayerSpec(config, make_environment, make_unroll_layout(config, make_environment), 0, played_code(config))


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_modules_of_the_user(spec: PlayerSpec) -> None:
    assert set(spec.code) == {"gymnasium", *NAMES}
    assert why_not_playable(spec, workers=1) is None
    for name in NAMES:
        Path(f"{name}.py").write_text(f"{MODULE}\nGRAVITY = 3\n")
        said = why_not_playable(spec, workers=1)
        assert said is not None and said.startswith(f"its {name} has source files ")
        Path(f"{name}.py").write_text(MODULE)


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_a_network_that_cannot_be_made(spec: PlayerSpec) -> None:
    Path("the_users_network.py").write_text(f"{MODULE}\ndef torso(space):\n    raise ValueError('no licence')\n")
    sys.modules.pop("the_users_network")
    same_code = replace(spec, code=played_code(spec.config))
    assert why_not_playable(same_code, workers=1) == (
        "--network=the_users_network:torso failed with ValueError: no licence."
    )


@pytest.mark.parametrize(
    ("env", "packages"),
    [
        ("PongNoFrameskip-v4", {"ale_py", "gymnasium"}),
        ("ALE/Pong-v5", {"ale_py", "gymnasium"}),
        ("CartPole-v1", {"gymnasium"}),
        ("Hopper-v5", {"gymnasium", "mujoco"}),
    ],
)
def test_packages(env: str, packages: set[str]) -> None:
    found = played_code(Config.from_flags({"env": env}))
    assert set(found) == packages
    assert found["gymnasium"] == f"version {importlib.metadata.version('gymnasium')}"


def test_another_version_of_a_package() -> None:
    config = Config.from_flags({**CATCH_RUN, "env": "CartPole-v1", "envs_per_worker": 2})
    layout = make_unroll_layout(config, make_environment)
    said = why_not_playable(PlayerSpec(config, make_environment, layout, 0, {"gymnasium": "version 0.1"}), workers=1)
    installed = importlib.metadata.version("gymnasium")
    assert said == f"its gymnasium has version {installed}, and the learner's has version 0.1; the same would be right"
