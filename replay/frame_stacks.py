"""Frame stacks, rebuilt from the single frames of an unroll when a batch is made."""

from collections.abc import Sequence

import cv2
import torch


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
