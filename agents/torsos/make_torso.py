"""The torso of `--network`: a module from `TorsoInput` to features `[N, F]`."""

from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict
from torch import nn

from agents.torsos.own_torso import LARGEST_INPUT, TRIAL_SIZE, TorsoInput, is_own, make_own_torso
from agents.torsos.pictures import SMALL, TINY, PictureLayers, picture_layers
from options.learning_options import VECTOR_NETWORKS
from options.rules import UsageError

MLP_UNITS = 128


class Observed(NamedTuple):
    """The sizes of an observation's parts."""

    picture: tuple[int, int, int]  # [S*C, H, W]; all 0 without a picture
    vector: int  # D; 0 without numbers

    @property
    def has_picture(self) -> bool:
        return self.picture[0] > 0


def torso_input(picture: torch.Tensor, vector: torch.Tensor | None) -> TorsoInput:
    """The parts that there are; a picture without channels is none."""
    if vector is None:
        return picture
    return (picture, vector) if picture.shape[1] else vector


def rows(inputs: TorsoInput, which: slice) -> TorsoInput:
    """Some of the N observations."""
    return inputs[which] if isinstance(inputs, torch.Tensor) else (inputs[0][which], inputs[1][which])


def make_torso(name: str, observed: Observed, width: int = 1) -> tuple[nn.Module, int]:
    """The torso of a network but `auto`, and of `--network_width`, and its number of features, F."""
    if is_own(name):
        return make_own_torso(name, observation_space(observed), trial_input(observed))
    torso, feature_count = _torso_of(name, observed, width)
    if observed.vector:
        first_vector_layers(torso)  # which the learner needs: now, not when its statistics first move
    return torso, feature_count


def observation_space(observed: Observed) -> Space[Any]:
    """The space that describes what the torso gets: a picture, a vector, or both."""
    picture = Box(0, 255, observed.picture, np.uint8)
    vector = Box(-LARGEST_INPUT, LARGEST_INPUT, (observed.vector,), np.float32)
    if observed.has_picture and observed.vector:
        return Dict(picture=picture, vector=vector)
    return picture if observed.has_picture else vector


def trial_input(observed: Observed) -> TorsoInput:
    """Some observations, in the memory format that they have in training."""
    picture = torch.zeros(TRIAL_SIZE, *observed.picture).contiguous(memory_format=torch.channels_last)
    return torso_input(picture, torch.zeros(TRIAL_SIZE, observed.vector) if observed.vector else None)


def _torso_of(name: str, observed: Observed, width: int) -> tuple[nn.Module, int]:
    if (name in VECTOR_NETWORKS) == observed.has_picture:
        seen = "have a picture" if observed.has_picture else "have no picture"
        raise UsageError(
            f"--network={name} does not fit this environment, whose observations {seen}; auto, or "
            f"{chosen_network(observed)}, would be right."
        )
    units = width * MLP_UNITS
    if name == "separate_mlp":
        return SeparateLayers(observed.vector, units), 2 * units
    if name == "mlp":
        return vector_layers(observed.vector, units), units
    layers = picture_layers(name, observed.picture, width)
    if not observed.vector:
        return nn.Sequential(layers.convolutions, nn.Flatten(), *layers.dense(layers.flat_size)), layers.hidden
    return PictureAndVector(layers, observed.vector, units), layers.hidden


def chosen_network(observed: Observed) -> str:
    """What `--network=auto` is for such observations."""
    if not observed.has_picture:
        return "mlp"
    shorter_side = min(observed.picture[1:])
    if shorter_side < TINY:
        return "small_conv"
    return "tiny_conv" if shorter_side < SMALL else "nature"


def vector_layers(size: int, units: int) -> nn.Sequential:
    """Two hidden layers. Their tanh keeps features small even where numbers are far from those seen before."""
    return nn.Sequential(nn.Linear(size, units), nn.Tanh(), nn.Linear(units, units), nn.Tanh())


class SeparateLayers(nn.Module):
    """Layers for the policy and others for the value: what the value needs does not change what the policy sees.

    The first half of the features is for the policy.
    """

    def __init__(self, vector_size: int, units: int) -> None:
        super().__init__()
        self.policy_layers = vector_layers(vector_size, units)
        self.value_layers = vector_layers(vector_size, units)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.policy_layers(vectors), self.value_layers(vectors)], dim=1)


def parts_for_heads(torso: nn.Module, feature_size: int) -> tuple[slice, slice]:
    """Which features are for the policy, and which for the value."""
    if isinstance(torso, SeparateLayers):
        return slice(0, feature_size // 2), slice(feature_size // 2, feature_size)
    return slice(0, feature_size), slice(0, feature_size)


def first_vector_layers(torso: nn.Module) -> list[nn.Linear]:
    """The layers that get the vectors, in a torso of this platform for observations with a vector."""
    if isinstance(torso, SeparateLayers):
        return [*first_vector_layers(torso.policy_layers), *first_vector_layers(torso.value_layers)]
    layers = torso.vector_layers if isinstance(torso, PictureAndVector) else torso
    first = layers[0] if isinstance(layers, nn.Sequential) else None
    if not isinstance(first, nn.Linear):
        raise TypeError("layers for vectors must be an nn.Sequential that begins with an nn.Linear")
    return [first]


class PictureAndVector(nn.Module):
    """Convolutions for the picture and two layers for the vector, side by side; then one dense layer for both."""

    def __init__(self, layers: PictureLayers, vector_size: int, units: int) -> None:
        super().__init__()
        self.convolutions = layers.convolutions
        self.vector_layers = vector_layers(vector_size, units)
        self.hidden = layers.dense(layers.flat_size + units)

    def forward(self, inputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        picture, vector = inputs
        together = torch.cat([self.convolutions(picture).flatten(1), self.vector_layers(vector)], dim=1)
        features: torch.Tensor = self.hidden(together)
        return features
