"""A batch of unrolls as tensors for the losses: `[T, B, …]`, time first, on the learner's device."""

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import torch

from agents.network import NetworkInput
from replay.mix import Batch
from replay.row_layout import on_device
from replay.unroll_layout import UnrollLayout


class TrainingBatch(NamedTuple):
    """T steps of B unrolls."""

    inputs: NetworkInput  # of T+1 steps
    actions: torch.Tensor  # [T, B, ...]: `layout.action_shape` for each step
    rewards: torch.Tensor  # [T, B], at a time limit plus γ times the value of the final state
    discounts: torch.Tensor  # [T, B], γ·(1 − done)
    behaviour_logits: torch.Tensor  # [T, B, P], of the acting policy
    held: torch.Tensor | None  # [T, B] bool, the steps whose action the policy did not choose; None: there are none
    stored_values: torch.Tensor  # [T, B], V(x_t) by the acting policy
    fresh: torch.Tensor  # [B] bool, True for unrolls from a queue
    any_fresh: bool
    any_replayed: bool
    valid: torch.Tensor  # [T, B] bool, the steps whose action took effect
    entropy_on: torch.Tensor  # [B] bool, the unrolls of the entropy loss: the fresh ones, or all if none is fresh


def make_training_batch(
    batch: Batch, layout: UnrollLayout, gamma: float, device: torch.device, copies: bool = False
) -> TrainingBatch:
    """The tensors of a batch on `device`; `gamma` is the discount of one step.

    They are valid until the next batch is mixed; with `copies` for longer.
    """
    rows = batch.rows if batch.uploaded is None else batch.uploaded
    fields = layout.tensors(rows.to(device, copy=copies))
    dones = fields["dones"].bool()
    keep = (~dones).float()
    actions, no_action = fields["actions"], on_device(layout.no_action, device)
    # Those before each of the states 1 to T; none after the end of an episode.
    previous_actions = torch.where(dones.view(*dones.shape, *(1,) * (actions.dim() - 2)), no_action, actions)
    seen_rewards, ended = fields["rewards"], dones
    step_discounts = torch.full_like(seen_rewards, gamma)
    if layout.delayed_actions:
        seen_rewards, ended = fields["seen_rewards"], fields["ended"].bool()
        valid = fields["valid"].bool().T.contiguous()  # strides decide the order of summation
        step_discounts = gamma ** fields["durations"]
    else:
        valid = torch.ones(layout.unroll_length, len(rows), dtype=torch.bool, device=device)
    any_fresh = bool(batch.fresh.any())
    fresh = on_device(batch.fresh, device)
    return TrainingBatch(
        inputs=NetworkInput(
            observations=observed_pictures(fields, layout),
            previous_actions=torch.cat([fields["first_action"].unsqueeze(1), previous_actions], 1).transpose(0, 1),
            previous_rewards=torch.cat([fields["first_reward"].unsqueeze(1), seen_rewards * keep], 1).T,
            # If state 0 starts an episode, the worker has stored reset inputs for it.
            starts=torch.cat([torch.zeros_like(dones[:, :1]), dones], 1).T,
            lstm_state=fields["first_lstm_state"],
            vectors=fields["vectors"].float().transpose(0, 1) if layout.vector_length else None,
        ),
        actions=actions.transpose(0, 1),
        rewards=(fields["rewards"] + step_discounts * fields["bootstraps"]).T,
        discounts=(step_discounts * ~ended).T,
        behaviour_logits=fields["behaviour_logits"].transpose(0, 1),
        held=fields["held"].bool().T if layout.explores else None,
        stored_values=fields["values"].T,
        fresh=fresh,
        any_fresh=any_fresh,
        any_replayed=not batch.fresh.all(),
        valid=valid,
        entropy_on=fresh if any_fresh else ~fresh,
    )


def observed_pictures(
    fields: dict[str, torch.Tensor], layout: UnrollLayout, states: Sequence[int] | None = None
) -> torch.Tensor:
    """The stacks of some of the states, or of all T+1: `[states, B, S*C, H, W]`, empty if there are no pictures."""
    if layout.has_pictures:
        return rebuild_stacks(fields["frames"], fields["dones"], slice(None) if states is None else states)
    batch, steps = fields["dones"].shape
    return fields["frames"].new_zeros(steps + 1 if states is None else len(states), batch, 0, 0, 0)


def stack_indices(dones: torch.Tensor, frame_stack: int) -> torch.Tensor:
    """The frames of each state: `dones [B, T]` → `[B, T+1, S]`, oldest first.

    State t consists of frames t..t+S-1. Frames from before the start of its episode are replaced by the first frame of
    the episode, as in the stack of the environment. State 0 stays as the worker saw it.
    """
    if dones.dim() != 2:
        raise ValueError(f"dones must be [B, T], not {tuple(dones.shape)}")
    batch, steps = dones.shape
    state = torch.arange(steps + 1, device=dones.device)
    starts = torch.full((batch, steps + 1), -frame_stack, device=dones.device)
    starts[:, 1:] = torch.where(dones.bool(), state[1:], starts[:, 1:])
    episode_start = starts.cummax(dim=1).values
    age = torch.arange(frame_stack - 1, -1, -1, device=dones.device)
    return torch.maximum(state[None, :, None] - age, episode_start[:, :, None]) + frame_stack - 1


def rebuild_stacks(
    frames: torch.Tensor, dones: torch.Tensor, states: Sequence[int] | slice = slice(None)
) -> torch.Tensor:
    """Stacks from single frames: `frames [B, T+S, C, H, W]`, `dones [B, T]` → `[T+1, B, S*C, H, W]`, time first.

    `states` selects some of the T+1 states. On a CPU the result is in channels-last memory order, which is fast there.
    """
    batch, frame_count = frames.shape[:2]
    wanted = stack_indices(dones, frame_count - dones.shape[1])[:, states]
    rows = (wanted + frame_count * torch.arange(batch, device=frames.device)[:, None, None]).transpose(0, 1)
    each = frames.flatten(0, 1)
    return merge_frames(each, rows) if frames.device.type == "cpu" else each[rows].flatten(2, 3)


def merge_frames(frames: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Stacks by index: frames `[N, C, H, W]`, indices `rows [T+1, B, S]` → `[T+1, B, S*C, H, W]`.

    As `frames[rows]`, on a CPU and in channels-last order. OpenCV saves a twentieth of an update's time here.
    """
    planes = frames.numpy()
    size, channels = frames.shape[2:], rows.shape[2] * frames.shape[1]
    stacks = torch.empty(*rows.shape[:2], *size, channels, dtype=torch.uint8)
    for stack, frames_of_state in zip(stacks.flatten(0, 1).numpy(), rows.flatten(0, 1).tolist(), strict=True):
        cv2.merge([plane for row in frames_of_state for plane in planes[row]], stack)
    return stacks.permute(0, 1, 4, 2, 3)
