"""Helpers: small learners, random batches, and the weights and gradients of a learner."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from agents.gradients import Record
from agents.learner import Learner
from agents.network import ActorCritic, NetworkInput
from agents.training_batch import make_training_batch
from option_flags import LossOptions, NetworkOptions, OptimizerOptions
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout
from tests.agents.slow_versions import Array

LAYOUT = UnrollLayout(unroll_length=5, frame_stack=2, frame_shape=(1, 20, 20), action_sizes=(4,))
LSTM_LAYOUT = dataclasses.replace(LAYOUT, lstm_size=6)
DELAYED_LAYOUT = dataclasses.replace(LSTM_LAYOUT, delayed_actions=True)
ALL_TERMS = LossOptions(
    gamma=0.9,
    rho_const=1.5,
    c_const=0.8,
    trace_lambda=0.9,
    policy_gradient_loss_weight=0.7,
    value_loss_weight=0.3,
    entropy_loss_weight=0.2,
    proximal_loss_weight=0.5,
    use_policy_cloning_loss=True,
    policy_cloning_loss_weight=0.4,
    use_value_cloning_loss=True,
    value_cloning_loss_weight=0.6,
    use_kl_mask=True,
    kl_div_threshold=0.15,
)


def make_batch(fresh: list[bool], layout: UnrollLayout = LAYOUT, seed: int = 0) -> Batch:
    """Random unrolls with episode ends in them; one end in two is a time limit, with a bootstrap."""
    rng = np.random.default_rng(seed)
    size, steps = len(fresh), layout.unroll_length
    rows = np.zeros((size, layout.nbytes), np.uint8)
    fields = layout.arrays(rows)
    fields["frames"][:] = rng.integers(0, 256, fields["frames"].shape)
    fields["actions"][:] = rng.integers(0, layout.action_count, (size, steps))
    fields["rewards"][:] = rng.normal(0, 1, (size, steps))
    fields["dones"][:] = rng.random((size, steps)) < 0.3
    fields["bootstraps"][:] = fields["dones"] * (rng.random((size, steps)) < 0.5) * rng.normal(0, 3, (size, steps))
    fields["behaviour_logits"][:] = rng.normal(0, 1, fields["behaviour_logits"].shape)
    fields["values"][:] = rng.normal(0, 1, (size, steps))
    fields["first_lstm_state"][:] = rng.normal(0, 1, fields["first_lstm_state"].shape)
    fields["first_action"][:] = rng.integers(-1, layout.action_count, size)
    fields["first_reward"][:] = rng.normal(0, 1, size)
    if layout.delayed_actions:
        fields["valid"][:] = rng.random((size, steps)) < 0.7
        fields["ended"][:] = rng.random((size, steps)) < 0.3
        fields["durations"][:] = rng.integers(1, 9, (size, steps)) / 4
        fields["seen_rewards"][:] = rng.normal(0, 1, (size, steps))
        for name in ("rewards", "bootstraps"):
            fields[name][fields["valid"] == 0] = np.nan  # they mean nothing
    return Batch(torch.from_numpy(rows), np.array(fresh))


def make_learner(
    loss: LossOptions | None = None,
    optimizer: OptimizerOptions | None = None,
    layout: UnrollLayout = LAYOUT,
    schedule_updates: int = 100,
    warmup: int = 0,
    announce: Callable[[str], None] = lambda message: None,
    device: str = "cpu",
    record: Record[Any] | None = None,
) -> Learner:
    torch.manual_seed(0)
    network = ActorCritic(NetworkOptions(network="impala_shallow"), layout, torch.float32)
    torch.nn.init.normal_(network.policy_head.weight, std=0.2)  # a policy that depends on the state
    torch.nn.init.normal_(network.policy_head.bias, std=0.2)
    optimizer = dataclasses.replace(optimizer or OptimizerOptions(), lr_warmup_updates=warmup)
    loss = loss or LossOptions()
    learner = Learner(network, layout, loss, optimizer, schedule_updates, torch.device(device))
    if record is not None:
        learner.record(record, announce)
    return learner


def inputs_of(batch: Batch, layout: UnrollLayout = LAYOUT) -> NetworkInput:
    return make_training_batch(batch, layout, 0.99, torch.device("cpu")).inputs


def reported(learner: Learner, batch: Batch) -> dict[str, float]:
    return {name: float(value) for name, value in learner.update(batch).items()}


def gradients(learner: Learner) -> dict[str, torch.Tensor]:
    found = {name: parameter.grad for name, parameter in learner.network.named_parameters()}
    return {name: gradient.clone() for name, gradient in found.items() if gradient is not None}


def length_of(tensors: dict[str, torch.Tensor]) -> float:
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors.values()))


def weights_of(learner: Learner) -> list[Array]:
    return [parameter.detach().double().numpy() for parameter in learner.network.parameters()]


def gradients_of(learner: Learner) -> list[Array]:
    return [gradient.double().numpy() for gradient in gradients(learner).values()]
