"""What the agent sees of an environment and what it may do there: the sizes that unrolls and networks are made for."""

from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.spaces import Box, Discrete

from replay.stored_vectors import VectorPart
from replay.unroll_layout import ActionKind


@dataclass(frozen=True)
class EnvironmentSpec:
    """The observations and actions of an environment, as `UnrollLayout` declares them."""

    frame_stack: int  # 0 without a picture
    frame_shape: tuple[int, ...]  # [C, H, W]; (0, 0, 0) without a picture
    vector_size: int
    one_hot_size: int
    action_kind: ActionKind
    action_sizes: tuple[int, ...]
    can_snapshot: bool  # its state can be saved, so a resumed run can continue its episodes
    vector_parts: tuple[VectorPart, ...] = ()  # how unrolls store the vector; (): all as float32
    action_names: tuple[str, ...] = ()  # of an Atari game: what the joystick does, such as UPFIRE

    @property
    def action_count(self) -> int:
        """The numbers that describe a policy in one state: a logit for each choice, or means and deviations."""
        return 2 * len(self.action_sizes) if self.action_kind == "gaussian" else sum(self.action_sizes)


def environment_spec(environment: gymnasium.Env[Any, Any]) -> EnvironmentSpec:
    """What the outermost wrapper says of itself; for an Atari game, what its spaces say."""
    spec = getattr(environment, "spec_for_agent", None)
    if isinstance(spec, EnvironmentSpec):
        return spec
    observations, actions = environment.observation_space, environment.action_space
    assert isinstance(observations, Box) and isinstance(actions, Discrete)
    frame_stack, *frame_shape = observations.shape
    return EnvironmentSpec(
        frame_stack=frame_stack,
        frame_shape=tuple(frame_shape),
        vector_size=0,
        one_hot_size=0,
        action_kind="discrete",
        action_sizes=(int(actions.n),),
        can_snapshot=True,
        action_names=action_names(environment),
    )


def action_names(environment: gymnasium.Env[Any, Any]) -> tuple[str, ...]:
    """The names of discrete actions; () if the environment has no names for them."""
    try:
        return tuple(environment.get_wrapper_attr("action_meanings"))
    except AttributeError:
        return ()
