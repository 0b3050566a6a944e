"""Episodes of a Minari data set as recorded games, which an environment plays back."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from evaluation.recorded_games import RecordedGame
from option_flags import EnvironmentOptions
from options.presets import is_noframeskip
from options.rules import UsageError
from replay.unroll_layout import UnrollLayout
from wrappers.any_environment.actions import actions_for
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.any_environment.creation import wrapped
from wrappers.environment import environment_spec


def minari_games(
    name: str, options: EnvironmentOptions, layout: UnrollLayout
) -> Iterator[tuple[str, RecordedGame, gymnasium.Env[Any, Any]]]:
    """Each episode of a data set: its name, the game, and an environment that gives its observations and rewards.

    UsageError if the run, which has these options and unrolls, sees or does something else.
    """
    flag = f"--demonstrations=minari:{name}"
    if is_noframeskip(options.env) or options.skipped_frames > 1 or options.interaction != "turns":
        raise UsageError(f"{flag} is for environments of Gymnasium, with --skipped_frames=1 and --interaction=turns.")
    if layout.mask_size:
        raise UsageError(f"{flag} has no action masks; --noaction_masks would be right.")
    data = _load(name, flag)
    actions = actions_for(data.action_space)
    for episode in data.iterate_episodes():
        whole = replace(options, max_game_frames=max(options.max_game_frames, len(episode) + 1))
        environment = AnyEnvironment(wrapped(_Playback(data, episode), options.env_wrapper), whole, seed=0)
        spec = environment_spec(environment)
        for part in ("frame_shape", "vector_size", "action_kind", "action_count"):
            if (recorded := getattr(spec, part)) != (own := getattr(layout, part)):
                raise UsageError(f"{flag} has {part} {recorded}, and --env={options.env} {own}.")
        taken = [actions.from_environment(_at(episode.actions, step)) for step in range(len(episode))]
        ended = bool(episode.terminations[-1] or episode.truncations[-1])
        return_ = math.fsum(map(float, episode.rewards)) if ended else None
        yield f"episode {episode.id}", RecordedGame(options, 0, np.array(taken), return_), environment


def _load(name: str, flag: str) -> Any:
    try:
        import minari  # noqa: PLC0415  # optional

        return minari.load_dataset(name)
    except ModuleNotFoundError:
        raise UsageError(f"{flag} needs the package minari: pip install minari[hdf5]") from None
    except FileNotFoundError:
        raise UsageError(f"{flag} is not on this machine; minari download {name} would load it.") from None
    except (OSError, LookupError, ValueError) as error:
        raise UsageError(f"{flag} cannot be read: {error}.") from None


class _Playback(gymnasium.Env[Any, Any]):
    """An episode, step by step, whatever the actions are."""

    def __init__(self, data: Any, episode: Any) -> None:
        self.observation_space, self.action_space = data.observation_space, data.action_space
        self._episode = episode
        self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._step = 0
        return _at(self._episode.observations, 0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        step, episode = self._step, self._episode
        self._step += 1
        seen = _at(episode.observations, self._step)
        return seen, float(episode.rewards[step]), bool(episode.terminations[step]), bool(episode.truncations[step]), {}


def _at(values: Any, step: int) -> Any:
    """The observation or action of one step, from the arrays of all steps in the structure of its space."""
    if isinstance(values, dict):
        return {key: _at(part, step) for key, part in values.items()}
    if isinstance(values, tuple):
        return tuple(_at(part, step) for part in values)
    return values[step]
