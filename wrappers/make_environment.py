"""Makes the environment of a run, whatever its id is, and checks before a run that this is possible."""

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnasium

from option_flags import EnvironmentOptions
from options.presets import is_noframeskip
from options.rules import UsageError
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.any_environment.creation import check_any_environment, create
from wrappers.atari import make_atari, reward_clipping
from wrappers.delayed_actions import DelayedActions
from wrappers.emulator import AtariWrapper, Start, Step, check_atari
from wrappers.environment import EnvironmentSpec, FinishedGame, Observation, Watch
from wrappers.films import FilmFrames


def make_environment(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
    """The environment of `options.env`, as the agent sees it; `environment_spec` describes its spaces.

    `get_wrapper_attr` finds `take_finished_games`. Atari games with a NoFrameskip id can `snapshot` and `restore`, and
    have `action_meanings`. `watch` is called with every frame, in colour.
    """
    if is_noframeskip(options.env):
        return make_atari(options, seed, watch)
    environment = create(options, films=watch is not None)
    if watch is not None:
        environment = FilmFrames(environment, watch)
    if options.interaction == "turns":
        return AnyEnvironment(environment, options, seed)
    in_ticks = dataclasses.replace(options, skipped_frames=1, reward_clipping_method="none")
    ticks = AnyEnvironment(environment, in_ticks, seed)
    return Ticks(ticks if options.in_real_time else DelayedActions(ticks, options), options)


class Ticks(AtariWrapper):
    """An agent step of any environment that does not wait: several steps of the environment, called ticks.

    The rewards that it returns are clipped, and the length of a game is its agent steps. In real time, a step is one
    tick, and its reward is not clipped; `look` returns the newest observation.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], options: EnvironmentOptions) -> None:
        super().__init__(env)
        self._ticks_of_decision = options.frames_per_step
        self._ticks = range(1 if options.in_real_time else options.frames_per_step)
        self._clip = reward_clipping("none" if options.in_real_time else options.reward_clipping_method)
        self._newest: Any = None
        self._finished_games: Callable[[], list[FinishedGame]] = env.get_wrapper_attr("take_finished_games")
        self._limit: int = env.get_wrapper_attr("time_limit")
        spec: EnvironmentSpec = env.get_wrapper_attr("spec_for_agent")
        # Actions that are arrays are no plain values.
        can_snapshot = spec.can_snapshot and spec.action_kind == "discrete"
        self.spec_for_agent = dataclasses.replace(spec, can_snapshot=can_snapshot)

    @property
    def time_limit(self) -> int:
        """Steps in the longest possible game."""
        return -(-self._limit // len(self._ticks))

    def take_finished_games(self) -> list[FinishedGame]:
        """The games that ended since the last call, oldest first, with unclipped returns."""
        period = self._ticks_of_decision
        return [game._replace(length=-(-game.length // period)) for game in self._finished_games()]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        self._newest, info = self.env.reset(seed=seed, options=options)
        return self._newest, info

    def step(self, action: Any) -> Step:
        total = 0.0
        for _ in self._ticks:
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        self._newest = observation
        return observation, self._clip(total), terminated, truncated, info

    def look(self) -> Observation:
        """The newest observation."""
        seen: Observation = self._newest
        return seen


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
