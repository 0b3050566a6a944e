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
    return UnrollLayout(
        unroll_length=config.replay.r_f_steps,
        frame_stack=observations.shape[0],
        frame_shape=observations.shape[1:],
        action_count=int(actions.n),
        lstm_size=config.network.lstm_size if config.network.use_lstm else 0,
        feature_size=config.network.feature_out_layer_size if config.replay.ranks_by_features else 0,
        delayed_actions=config.environment.interaction != "turns",
        real_time=config.environment.in_real_time,
    )
