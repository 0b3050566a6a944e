"""The layout of unrolls for the observation and action space of an environment."""

import gymnasium

from option_flags import Config
from replay.unroll_layout import UnrollLayout
from wrappers.environment_types import MakeEnvironment


def make_unroll_layout(config: Config, make_environment: MakeEnvironment) -> UnrollLayout:
    """The layout of the unrolls of `config.environment`; makes one environment to read its spaces."""
    environment = make_environment(config.environment, 0)
    observations, actions = environment.observation_space, environment.action_space
    environment.close()
    assert isinstance(observations, gymnasium.spaces.Box) and isinstance(actions, gymnasium.spaces.Discrete)
    return unroll_layout(config, observations.shape[0], observations.shape[1:], int(actions.n))


def unroll_layout(config: Config, frame_stack: int, frame_shape: tuple[int, ...], action_count: int) -> UnrollLayout:
    """The layout of a run's unrolls, for observations of so many frames `[C, H, W]`."""
    return UnrollLayout(
        unroll_length=config.replay.r_f_steps,
        frame_stack=frame_stack,
        frame_shape=frame_shape,
        action_count=action_count,
        lstm_size=config.network.lstm_size if config.network.use_lstm else 0,
        feature_size=config.network.feature_out_layer_size if config.replay.ranks_by_features else 0,
        delayed_actions=config.environment.interaction != "turns",
        real_time=config.environment.in_real_time,
    )
