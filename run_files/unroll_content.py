"""What saved unrolls hold: numbers with which the learner can compute."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from run_files.value_rules import Check, ContentError, list_of, number, raw_bytes, table, tensor, tuple_of, whole

FINITE = ("rewards", "bootstraps", "behaviour_logits", "values", "game_returns", "first_lstm_state", "first_reward")


def unrolls(layout: UnrollLayout, most: int) -> Check:
    """A tensor of at most `most` unrolls, one in each row."""
    rows = tensor(torch.uint8, None, layout.nbytes)

    def check(value: Any, place: str) -> None:
        rows(value, place)
        if len(value) > most:
            raise ContentError(f"{place} must be at most {most:,} unrolls, not {len(value):,}")
        check_rows(value.numpy(), layout, place)

    return check


def open_unrolls(layout: UnrollLayout, environments: int) -> Check:
    """The unrolls of one worker whose last actions have not taken effect, as `OpenUnrolls` saves them."""
    parts = table(
        {
            "unrolls": list_of(raw_bytes(environments * layout.nbytes)),
            "first_step": whole(),
            "steps": list_of(list_of(tuple_of(whole(), whole())), environments),
            "rewards": list_of(list_of(tuple_of(whole(), number())), environments),
        }
    )

    def check(value: Any, place: str) -> None:
        parts(value, place)
        for index, rows in enumerate(value["unrolls"]):
            content = np.frombuffer(rows, np.uint8).reshape(environments, layout.nbytes)
            check_rows(content, layout, f"{place}.unrolls[{index}]")
        first = value["first_step"]
        open_step = whole(first, first + len(value["unrolls"]) * layout.unroll_length - 1)
        for e in range(environments):
            for _, step in value["steps"][e]:
                open_step(step, f"{place}.steps[{e}]")
            for step, _ in value["rewards"][e]:
                open_step(step, f"{place}.rewards[{e}]")

    return check


def check_rows(rows: Rows, layout: UnrollLayout, place: str) -> None:
    """Refuse unrolls `[n, nbytes]` with actions that do not exist, with counters below 0, or with NaN."""
    ranges: list[tuple[str, int, int | None]] = [
        ("dones", 0, 1),
        ("game_lengths", 0, None),
        ("weight_version", 0, None),
        ("environment_id", 0, None),
    ]
    finite: tuple[str, ...] = FINITE
    if "vectors" in layout.field_names:
        finite = (*finite, "vectors")
    if "vectors_choice" in layout.field_names:
        indices = layout.array(rows, "vectors_choice")
        if ((indices < 0) | (indices >= layout.stored_vectors.choice_sizes)).any():
            raise ContentError(f"{place}: the vectors_choice of all unrolls must be one of the choices of the space")
    if layout.action_kind == "gaussian":
        finite = (*finite, "actions", "first_action")
    else:
        check_choices(layout.array(rows, "actions"), 0, layout, f"{place}: the actions")
        check_choices(layout.array(rows, "first_action"), -1, layout, f"{place}: the first_action")
    if layout.delayed_actions:
        ranges += [("valid", 0, 1), ("ended", 0, 1), ("ages", 0, None), ("played_frames", 0, None)]
        ranges += [("idle_frames", 0, None), ("durations", 0, None)]
        finite = (*finite, "durations", "seen_rewards")
    if layout.real_time:
        ranges += [("inference_times", 0, None), ("missed_frames", 0, None), ("dropped_unrolls", 0, None)]
        finite = (*finite, "inference_times")
    for name, low, high in ranges:
        found = layout.array(rows, name)
        if found.size and (found.min() < low or (high is not None and found.max() > high)):
            wanted = f"at least {low}" if high is None else f"between {low} and {high}"
            raise ContentError(f"{place}: the {name} of all unrolls must be {wanted}")
    for name in finite:
        if not np.isfinite(layout.array(rows, name)).all():
            raise ContentError(f"{place}: the {name} of all unrolls must be finite numbers")


def check_choices(actions: NDArray[np.int32], low: int, layout: UnrollLayout, place: str) -> None:
    """Refuse actions `[..., *layout.action_shape]` that do not exist; -1 stands for none where `low` is -1."""
    most = np.array(layout.action_sizes if layout.action_sizes else layout.action_count) - 1
    if ((actions < low) | (actions > most)).any():
        raise ContentError(f"{place} of all unrolls must be between {low} and {np.max(most)}")
