"""The types of the functions that make environments."""

from collections.abc import Callable
from typing import Any, Protocol

import gymnasium

from option_flags import EnvironmentOptions
from wrappers.film_frames import Watch

# Takes the options and a seed. Must be a module-level function, so that it can be pickled for worker processes.
MakeEnvironment = Callable[[EnvironmentOptions, int], gymnasium.Env[Any, Any]]


class MakeWatchedEnvironment(Protocol):
    """A `MakeEnvironment` with a third argument: a function that is called with every raw frame."""

    def __call__(
        self, options: EnvironmentOptions, seed: int, watch: Watch | None = None
    ) -> gymnasium.Env[Any, Any]: ...
