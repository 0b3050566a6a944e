"""What the rest of the program sees of an environment: how it is made, what an agent sees and does, finished games."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from option_flags import EnvironmentOptions
from replay.unroll_layout import ActionKind, Spaces

Watch: TypeAlias = Callable[[NDArray[np.uint8], float], None]  # colour picture [height, width, 3], score so far


class MakeEnvironment(Protocol):
    """A module-level function, which can be pickled for worker processes. `watch` is called with every raw frame."""

    def __call__(
        self, options: EnvironmentOptions, seed: int, watch: Watch | None = None
    ) -> gymnasium.Env[Any, Any]: ...


class Observation(NamedTuple):
    """One observation: the newest frame, and a vector. The next step or reset may overwrite the frame."""

    frame: NDArray[np.uint8]  # [C, H, W]; [0, 0, 0] without a picture
    vector: NDArray[np.float32]  # [D], numbers and then the action mask; [0] with neither


FAILED_RESETS = "failed_resets"  # in the info of a reset: what went wrong in the tries before it succeeded, as texts

FASTEST_RATE = 240  # frames a second; a higher number in the metadata of an environment is a mistake
USUAL_RATE = 60.0  # of a console

NO_FRAME: NDArray[np.uint8] = np.zeros((0, 0, 0), np.uint8)
NO_VECTOR: NDArray[np.float32] = np.zeros(0, np.float32)


def as_observation(seen: Observation | NDArray[np.uint8]) -> Observation:
    """Both parts of an observation; Atari games return their frame alone, `[H, W]` or `[H, W, C]`."""
    if isinstance(seen, Observation):
        return seen
    return Observation(seen[None] if seen.ndim == 2 else seen.transpose(2, 0, 1), NO_VECTOR)


class FinishedGame(NamedTuple):
    """What is known of a game that ended or was cut off."""

    return_: float  # unclipped
    length: int  # in agent steps
    info: dict[str, float] = {}  # what the environment says of it  # noqa: RUF012


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec(Spaces):
    """What an environment says of itself."""

    can_snapshot: bool  # its state can be saved, so a resumed run can continue its episodes
    frames_per_second: float = USUAL_RATE  # in real time


def environment_spec(environment: gymnasium.Env[Any, Any]) -> EnvironmentSpec:
    """What the outermost wrapper says of itself; for an Atari game, what its spaces say."""
    spec = getattr(environment, "spec_for_agent", None)
    if isinstance(spec, EnvironmentSpec):
        return spec
    observations, actions = environment.observation_space, environment.action_space
    assert isinstance(observations, Box) and isinstance(actions, Discrete)
    height, width, *channels = observations.shape
    has_names = environment.has_wrapper_attr("action_meanings")
    return EnvironmentSpec(
        frame_shape=(*(channels or (1,)), height, width),
        action_sizes=(int(actions.n),),
        can_snapshot=True,
        action_names=environment.get_wrapper_attr("action_meanings") if has_names else (),
    )


def random_action(
    kind: ActionKind, sizes: Sequence[int], generator: np.random.Generator, mask: NDArray[np.float32] = NO_VECTOR
) -> NDArray[Any]:
    """A random action, one of those that the action mask leaves; a mask of length 0 leaves all of them.

    Real numbers are between −1 and 1, where bounded ones have their bounds.
    """
    if kind in ("gaussian", "mixed"):
        choices = generator.integers(np.maximum(sizes, 1))
        return np.where(sizes, choices, generator.uniform(-1, 1, len(sizes))).astype(np.float32)
    if len(mask):
        factors = np.split(mask, first_choices(sizes)[1:])
        chosen = np.array([generator.choice(np.flatnonzero(factor)) for factor in factors])
    else:
        chosen = np.array(generator.integers(sizes if kind == "product" else sizes[0]))
    return chosen if kind == "product" else chosen.reshape(())


def first_choices(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Where each factor's choices begin among those of all factors."""
    return np.cumsum((0, *sizes[:-1]))


def own_rate(environment: gymnasium.Env[Any, Any]) -> float | None:
    """The frames a second in the metadata. Users write them, so they may be anything; None if they are of no use."""
    metadata: Any = environment.metadata
    rate = metadata.get("render_fps") if isinstance(metadata, Mapping) else None
    if not isinstance(rate, (int, float, np.integer, np.floating)) or isinstance(rate, bool):
        return None
    return float(rate) if 1 <= rate <= FASTEST_RATE else None
