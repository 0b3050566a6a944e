"""The fields of an unroll: names, shapes and dtypes. An unroll is one contiguous row of bytes.

Shared-memory slots, replay storage and batches are all arrays of such rows, so moving an unroll is one copy of bytes.
State t of an unroll (t = 0..T) is the stack of frames t..t+S-1. The first S frames are the stack of state 0 as the
worker saw it; each step adds one frame.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import torch

from replay.row_layout import Declared, RowLayout, Rows

__all__ = ["Rows", "UnrollLayout", "gather_frames", "merge_frames", "rebuild_stacks", "stack_indices"]


@dataclass(frozen=True)
class UnrollLayout(RowLayout):
    """The layout of one unroll of T steps in an environment of the given frame shape and number of actions."""

    unroll_length: int
    frame_stack: int
    frame_shape: tuple[int, ...]
    action_count: int
    lstm_size: int = 0  # 0: a network without memory
    feature_size: int = 0  # 0: no replay ranks by stored features

    @property
    def declared(self) -> Sequence[Declared]:
        steps = self.unroll_length
        return [
            ("frames", (steps + self.frame_stack, *self.frame_shape), "uint8"),
            ("actions", (steps,), "int32"),
            ("rewards", (steps,), "float32"),  # clipped
            ("dones", (steps,), "uint8"),  # state t+1 starts an episode: game over, time limit or a lost life
            ("bootstraps", (steps,), "float32"),  # value of the final state at a time limit, 0 elsewhere
            ("behaviour_logits", (steps, self.action_count), "float32"),
            ("values", (steps,), "float32"),  # V(x_t) by the acting policy
            ("features", (steps, self.feature_size), "float16"),  # of the acting policy, projected
            ("game_returns", (steps,), "float32"),  # of the full game that ended here, unclipped
            ("game_lengths", (steps,), "int32"),  # in agent steps; 0 where no game ended
            ("first_lstm_state", (2, self.lstm_size), "float32"),  # h and c before state 0
            ("first_action", (), "int32"),  # the action before state 0, -1 at an episode start
            ("first_reward", (), "float32"),  # the reward before state 0
            ("weight_version", (), "int64"),
            ("environment_id", (), "int32"),
        ]


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
    rows = wanted + frame_count * torch.arange(batch, device=frames.device)[:, None, None]
    pick = merge_frames if frames.device.type == "cpu" else gather_frames
    return pick(frames.flatten(0, 1), rows.transpose(0, 1))


def gather_frames(frames: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Stacks by index: frames `[N, C, H, W]`, indices `rows [T+1, B, S]` → `[T+1, B, S*C, H, W]`."""
    return frames[rows].flatten(2, 3)


def merge_frames(frames: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Like `gather_frames`, on a CPU and in channels-last order. OpenCV saves a twentieth of an update's time here."""
    planes = frames.numpy()
    size, channels = frames.shape[2:], rows.shape[2] * frames.shape[1]
    stacks = torch.empty(*rows.shape[:2], *size, channels, dtype=torch.uint8)
    for stack, frames_of_state in zip(stacks.flatten(0, 1).numpy(), rows.flatten(0, 1).tolist(), strict=True):
        cv2.merge([plane for row in frames_of_state for plane in planes[row]], stack)
    return stacks.permute(0, 1, 4, 2, 3)
