"""Makes the environment of a run, whatever its id is, and checks before a run that this is possible."""

from typing import Any

import gymnasium
import numpy as np

from option_flags import EnvironmentOptions
from options.presets import is_noframeskip
from options.rules import UsageError
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.any_environment.creation import check_any_environment, create
from wrappers.atari import make_atari
from wrappers.emulator import check_atari
from wrappers.environment import EnvironmentSpec, Observation, Watch, environment_spec


def make_environment(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
    """The environment of `options.env`, as the agent sees it; `environment_spec` describes its spaces.

    `get_wrapper_attr` finds `take_finished_games`. Atari games with a NoFrameskip id can `snapshot` and `restore`, and
    have `action_meanings`. `watch` is called with every frame, in colour.
    """
    if is_noframeskip(options.env):
        return make_atari(options, seed, watch)
    return AnyEnvironment(create(options, films=watch is not None), options, seed, watch)


def check_environment(options: EnvironmentOptions, films: bool = False) -> EnvironmentSpec | None:
    """Raise a UsageError if `make_environment` cannot make the environment; with `films`, if it cannot be filmed.

    Returns the observations and actions of an environment of Gymnasium; None for a NoFrameskip game.
    """
    if is_noframeskip(options.env):
        for name in ("env_kwargs", "env_wrapper", "largest_pixel", "spread_starts", "action_masks", "episode_info"):
            if getattr(options, name) != getattr(EnvironmentOptions, name):
                raise UsageError(
                    f"--{name} has no meaning for --env={options.env}, whose wrappers are fixed; an id of Gymnasium, "
                    "such as ALE/Pong-v5, would be right."
                )
        check_atari(options)
        return None
    return check_any_environment(options, films)


class SpreadStarts(gymnasium.Wrapper[Observation, Any, Observation, Any]):
    """Cut the first episode after a random number of steps, up to `time_limit`; the later ones stay whole.

    Where every episode lasts as long as the time limit, environments that start together stay together: all unrolls of
    a batch are from the same part of an episode, and what the policy does in the other parts is forgotten meanwhile.

    The cut is a truncation. It is no finished game, so the environment inside, which counts games, does not see it.
    """

    def __init__(self, env: gymnasium.Env[Observation, Any], time_limit: int, generator: np.random.Generator) -> None:
        super().__init__(env)
        self.spec_for_agent = environment_spec(env)
        self._steps_left = int(generator.integers(1, time_limit, endpoint=True))
        self._is_first = True

    def step(self, action: Any) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._is_first:
            self._steps_left -= 1
            truncated = truncated or self._steps_left == 0
            self._is_first = not (terminated or truncated)
        return observation, reward, terminated, truncated, info

    def snapshot(self) -> dict[str, Any]:
        own = [self._steps_left, self._is_first]
        return {"own": own, "inner": self.env.get_wrapper_attr("snapshot")()}

    def restore(self, state: dict[str, Any]) -> None:
        self._steps_left, self._is_first = state["own"]
        self.env.get_wrapper_attr("restore")(state["inner"])
