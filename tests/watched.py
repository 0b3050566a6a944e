"""Environments whose pictures a test sees, too."""

from typing import Any

import gymnasium

from evaluation.film import Picture
from option_flags import EnvironmentOptions
from wrappers.environment import MakeEnvironment, Watch


def keeping_pictures(make: MakeEnvironment, pictures: list[Picture]) -> MakeEnvironment:
    """A function that makes the same environment, and adds all of its pictures to the list."""

    def make_watched(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
        def both(picture: Picture, score: float) -> None:
            pictures.append(picture.copy())
            if watch is not None:
                watch(picture, score)

        return make(options, seed, both)

    return make_watched
