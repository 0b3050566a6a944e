"""The bars in which the page shows what the policy would do: one for each choice, or for each real-valued action."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from replay.unroll_layout import UnrollLayout


class ActionBars(NamedTuple):
    names: tuple[str, ...]
    lengths: tuple[float, ...]  # from 0 to 1
    chosen: tuple[int, ...]  # the bars of the action


def action_bars(layout: UnrollLayout, names: Sequence[str]) -> Callable[[torch.Tensor, torch.Tensor], ActionBars]:
    """A function from the numbers of a policy `[P]` and an action to its bars; `names` are of discrete actions."""
    if layout.action_kind == "gaussian":
        labels = tuple(f"action {index}" for index in range(len(layout.action_sizes)))

        def describe_gaussian(policy: torch.Tensor, action: torch.Tensor) -> ActionBars:
            return ActionBars(labels, tuple((action.clamp(-1, 1) / 2 + 0.5).tolist()), ())

        return describe_gaussian

    sizes = layout.action_sizes or (layout.action_count,)
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    if layout.action_kind == "product":
        names = [f"{index}: {choice}" for index, size in enumerate(sizes) for choice in range(size)]

    def describe(policy: torch.Tensor, action: torch.Tensor) -> ActionBars:
        probabilities = torch.cat([part.float().softmax(-1) for part in policy.split(list(sizes))])
        chosen = [start + int(choice) for start, choice in zip(starts, action.reshape(-1).tolist(), strict=True)]
        return ActionBars(tuple(names), tuple(probabilities.tolist()), tuple(chosen))

    return describe
