"""The bars in which the page shows what the policy would do: one for each choice, or for each real-valued action."""

from collections.abc import Sequence

import torch

from replay.unroll_layout import UnrollLayout


def bar_names(layout: UnrollLayout, names: Sequence[str]) -> tuple[str, ...]:
    """One name for each of the numbers that `as_bars` of a distribution gives; `names` are of discrete actions."""
    if layout.action_kind == "gaussian":
        return tuple(f"action {index}" for index in range(len(layout.action_sizes)))
    if layout.action_kind == "product":
        return tuple(f"{factor}: {choice}" for factor, size in enumerate(layout.action_sizes) for choice in range(size))
    return tuple(names)


def chosen_bars(layout: UnrollLayout, action: torch.Tensor) -> tuple[int, ...]:
    """The bars of an action; none for real numbers."""
    if layout.action_kind == "gaussian":
        return ()
    sizes = layout.action_sizes or (layout.action_count,)
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return tuple(start + int(choice) for start, choice in zip(starts, action.reshape(-1).tolist(), strict=True))
