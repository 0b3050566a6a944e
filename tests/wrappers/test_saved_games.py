"""An environment that can save itself is continued in the middle of a game, as if nothing had happened."""

import io
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from tests.wrappers.hand_written import options_of
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.environment import environment_spec
from wrappers.make_environment import make_environment

LIMIT = 3  # steps of a game that would last five
CATCH = f"{__name__}:Saved-v0"

gymnasium.register("Saved-v0", entry_point="tests.catch:Catch", max_episode_steps=LIMIT, kwargs={"seed": 1})


class KeepsNothing(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper whose state nobody can save."""


def spread(seed: int, **flags: Any) -> AnyEnvironment:
    env = make_environment(options_of(CATCH, **flags), seed)
    assert isinstance(env, AnyEnvironment)
    env.cut_first_episode(np.random.default_rng(seed))
    return env


def play(env: AnyEnvironment, steps: int) -> list[Any]:
    seen: list[Any] = []
    for action in np.random.default_rng(7).integers(0, 3, steps).tolist():
        observation, *rest, _ = env.step(action)
        seen.append((observation.frame.tobytes(), *rest))
        if rest[1] or rest[2]:
            seen.append(env.reset()[0].frame.tobytes())
    return [*seen, env.take_finished_games()]


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize(
    "flags",
    [
        *({"skipped_frames": 1}, {"skipped_frames": 2}),
        {"interaction": "asynchronous", "action_delay": 2, "idle_action": "random"},
    ],
)
def test_a_restored_game_goes_on_with_its_time_limit_and_its_return(steps: int, flags: dict[str, Any]) -> None:
    env, other = spread(4, **flags), spread(5, **flags)
    for each in (env, other):
        each.reset()
    for action in range(steps):
        _, _, terminated, truncated, _ = env.step(action % 3)
        if terminated or truncated:
            env.reset()
    file = io.BytesIO()
    torch.save(env.snapshot(), file)
    file.seek(0)
    other.restore(torch.load(file, weights_only=True))
    assert play(other, 40) == play(env, 40)
    assert other.snapshot() == env.snapshot()


@pytest.mark.parametrize(
    ("flags", "can_be_saved"),
    [
        ({}, True),
        ({"env_wrapper": f"{__name__}:KeepsNothing"}, False),
        ({"repeat_action_probability": 0.25}, False),
        ({"env": "CartPole-v1"}, False),
    ],
)
def test_what_can_be_saved_is_known(flags: dict[str, Any], can_be_saved: bool) -> None:
    env = make_environment(options_of(**{"env": CATCH, **flags}), 0)
    assert environment_spec(env).can_snapshot == can_be_saved
