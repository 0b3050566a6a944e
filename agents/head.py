"""The last layer of the policy or of the value."""

import torch
from torch import nn


class Head(nn.Linear):
    """`part` are the features that it reads: `[..., F]` → `[..., outputs]`."""

    def __init__(self, part: slice, outputs: int) -> None:
        super().__init__(part.stop - part.start, outputs)
        self._part = part

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return super().forward(features[..., self._part])
