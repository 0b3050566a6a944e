"""The types of the functions that make environments."""

from collections.abc import Callable
from typing import Any, Protocol

import gymnasium

from option_flags import EnvironmentOptions
from wrappers.spectator import Watch

MakeEnvironment = Callable[[EnvironmentOptions, int], gymnasium.Env[Any, Any]]  # spawned workers find it by its name


class MakeWatchedEnvironment(Protocol):
    """Makes an environment that somebody may watch; a `MakeEnvironment`, too."""

    def __call__(
        self, options: EnvironmentOptions, seed: int, watch: Watch | None = None
    ) -> gymnasium.Env[Any, Any]: ...
