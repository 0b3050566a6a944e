"""What a torso gets of an observation."""

from typing import NamedTuple

import torch

# A scaled picture minus the background `[N, S*C, H, W]`, a normalised vector `[N, D]`, or both.
TorsoInput = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


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
