"""Makes the environment of a run, whatever its id is, and checks before a run that this is possible."""

from typing import Any

import gymnasium

from option_flags import EnvironmentOptions
from options.presets import is_noframeskip
from options.rules import UsageError
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.any_environment.creation import check_any_environment, create
from wrappers.atari import make_atari
from wrappers.emulator import check_atari
from wrappers.environment import EnvironmentSpec, Watch


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
