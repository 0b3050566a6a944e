"""A batch of unrolls as tensors for the losses: `[T, B, …]`, time first, on the learner's device."""

from typing import NamedTuple

import torch

from agents.network import NetworkInput
from replay.frame_stacks import rebuild_stacks
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout


class TrainingBatch(NamedTuple):
    """T steps of B unrolls."""

    inputs: NetworkInput  # of T+1 steps
    actions: torch.Tensor  # [T, B, ...]: `layout.action_shape` for each step
    rewards: torch.Tensor  # [T, B], at a time limit plus γ times the value of the final state
    discounts: torch.Tensor  # [T, B], γ·(1 − done)
    behaviour_logits: torch.Tensor  # [T, B, A]
    stored_values: torch.Tensor  # [T, B], V(x_t) by the acting policy
    fresh: torch.Tensor  # [B] bool, True for unrolls from a queue
    any_fresh: bool
    any_replayed: bool
    valid: torch.Tensor | None  # [T, B] bool, the steps whose action took effect; None: all
    entropy_on: torch.Tensor  # [B] bool, the unrolls of the entropy loss: the fresh ones, or all if none is fresh


def make_training_batch(batch: Batch, layout: UnrollLayout, gamma: float, device: torch.device) -> TrainingBatch:
    """The tensors of a batch on `device`; `gamma` is the discount of one step."""
    rows = batch.rows if batch.uploaded is None else batch.uploaded
    fields = layout.tensors(rows.to(device))
    dones = fields["dones"].bool()
    keep = (~dones).float()
    previous_actions = after_episodes(fields["actions"], dones)
    seen_rewards, ended, valid = fields["rewards"], dones, None
    step_discounts = torch.full_like(seen_rewards, gamma)
    if layout.delayed_actions:
        seen_rewards, ended = fields["seen_rewards"], fields["ended"].bool()
        valid = fields["valid"].bool().T.contiguous()  # strides decide the order of summation
        step_discounts = gamma ** fields["durations"]
    any_fresh = bool(batch.fresh.any())
    fresh = torch.from_numpy(batch.fresh).to(device, non_blocking=True)
    return TrainingBatch(
        inputs=NetworkInput(
            observations=observed_pictures(fields, dones, layout),
            previous_actions=torch.cat([fields["first_action"].unsqueeze(1), previous_actions], 1).transpose(0, 1),
            previous_rewards=torch.cat([fields["first_reward"].unsqueeze(1), seen_rewards * keep], 1).T,
            # If state 0 starts an episode, the worker has stored reset inputs for it.
            starts=torch.cat([torch.zeros_like(dones[:, :1]), dones], 1).T,
            lstm_state=fields["first_lstm_state"],
            vectors=layout.stored_vectors.read(fields).transpose(0, 1) if layout.vector_size else None,
        ),
        actions=fields["actions"].transpose(0, 1),
        rewards=(fields["rewards"] + step_discounts * fields["bootstraps"]).T,
        discounts=(step_discounts * ~ended).T,
        behaviour_logits=fields["behaviour_logits"].transpose(0, 1),
        stored_values=fields["values"].T,
        fresh=fresh,
        any_fresh=any_fresh,
        any_replayed=not batch.fresh.all(),
        valid=valid,
        entropy_on=fresh if any_fresh else ~fresh,
    )


def observed_pictures(fields: dict[str, torch.Tensor], dones: torch.Tensor, layout: UnrollLayout) -> torch.Tensor:
    """The stacks of all states, `[T+1, B, S*C, H, W]`; without pictures, an empty tensor of T+1 steps."""
    if layout.has_pictures:
        return rebuild_stacks(fields["frames"], dones)
    batch, steps = dones.shape
    return fields["frames"].new_zeros(steps + 1, batch, 0, 0, 0)


def after_episodes(actions: torch.Tensor, dones: torch.Tensor) -> torch.Tensor:
    """The action before each of the states 1 to T: `[B, T, ...]`, `dones [B, T]`. After an episode's end, none."""
    none = 0 if actions.is_floating_point() else -1
    return torch.where(dones.view(*dones.shape, *(1,) * (actions.dim() - 2)), none, actions)
