"""What a network says about a batch."""

from typing import NamedTuple

import torch

from agents.gradients import Averaged
from agents.network import ActorCritic
from agents.training_batch import TrainingBatch


class Estimates(NamedTuple):
    """Of T steps and the state after them."""

    logits: torch.Tensor  # [T+1, B, P]
    values: torch.Tensor  # [T+1, B]


def estimates_of(network: Averaged | ActorCritic, unrolls: TrainingBatch) -> Estimates:
    output = network(unrolls.inputs, last_is_bootstrap=True)
    return Estimates(output.logits, output.values)
