"""The networks on trial fit the platform, and their control is its default network."""

import inspect
from pathlib import Path

import pytest
import torch

from agents.torsos.make_torso import Observed, make_torso
from sweeps.plan import plan_sweep, read_sweep
from tests.benchmarks import trial_networks

ATARI = Observed((4, 84, 84), 0)
NAMES = [
    name
    for name, function in inspect.getmembers(trial_networks, inspect.isfunction)
    if function.__module__ == trial_networks.__name__ and not name.startswith("_")
]
SWEEP = Path(__file__).with_name("trial_networks.json")


def torso(name: str) -> torch.nn.Module:
    return make_torso(f"tests.benchmarks.trial_networks:{name}", ATARI)[0]


def shapes(module: torch.nn.Module) -> list[torch.Size]:
    return [weights.shape for weights in module.parameters()]


@pytest.mark.parametrize("name", NAMES)
def test_a_network_learns_with_all_of_its_weights(name: str) -> None:
    module = torso(name)
    pictures = torch.rand(3, *ATARI.picture, generator=torch.Generator().manual_seed(0)) - 0.5
    features = module(pictures)
    assert features.shape == (3, trial_networks.UNITS)
    features.square().sum().backward()
    assert all(weights.grad is not None and weights.grad.any() for weights in module.parameters())


def test_the_control_is_the_default_network() -> None:
    default, _ = make_torso("nature", ATARI)
    assert shapes(torso("nature")) == shapes(default)


def test_normalised_features_do_not_depend_on_the_scale_of_a_sample() -> None:
    module = torso("normalised")
    pictures = torch.rand(2, *ATARI.picture, generator=torch.Generator().manual_seed(0)) - 0.5
    torch.testing.assert_close(module(8 * pictures), module(pictures), rtol=1e-3, atol=1e-3)


def test_the_sweep_tries_each_network_in_each_game() -> None:
    runs = plan_sweep(read_sweep(SWEEP), {}).runs
    tried = {(run.config.environment.env, run.config.network.network.rpartition(":")[2]) for run in runs}
    assert tried == {(f"{game}NoFrameskip-v4", name) for game in ("Pong", "Breakout") for name in NAMES}
