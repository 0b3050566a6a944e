"""The order in memory of the weights of convolutions."""

from itertools import chain
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


@torch.no_grad()
def channels_last(module: Module) -> Module:
    """Store the weights of two-dimensional convolutions as their inputs are stored; returns the module.

    `Module.to(memory_format=...)` fails where a module has three-dimensional convolutions too.
    """
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.dim() == 4:
            tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)
    return module
