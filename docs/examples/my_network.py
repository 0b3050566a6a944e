"""A network of one's own for `my_environment.py`: `--network=my_network:make_torso` finds it."""

import gymnasium
import torch
from torch import nn


def make_torso(observation_space: gymnasium.Space[torch.Tensor]) -> nn.Module:
    """From observations to features. The heads of policy and value, and the LSTM, come after it.

    `observation_space` is what the network sees: a Box [D] of numbers, a Box [channels, height, width] of a picture, or
    a Dict of both, `picture` and `vector`. The module gets tensors of these shapes with a batch dimension in front; of
    a Dict, the pair (picture, vector). It returns [batch, features].
    """
    assert observation_space.shape is not None
    (size,) = observation_space.shape
    return nn.Sequential(nn.Linear(size, 64), nn.LayerNorm(64), nn.SiLU(), nn.Linear(64, 32), nn.SiLU())
