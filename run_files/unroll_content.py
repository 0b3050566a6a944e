"""What saved unrolls hold: numbers with which the learner can compute."""

from typing import Any

import numpy as np
import torch

from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from run_files.content_rules import Check, ContentError, tensor

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


def check_rows(rows: Rows, layout: UnrollLayout, place: str) -> None:
    """Refuse unrolls `[n, nbytes]` with actions that do not exist, with counters below 0, or with NaN."""
    actions = layout.action_count
    for name, low, high in (
        ("actions", 0, actions - 1),
        ("first_action", -1, actions - 1),
        ("dones", 0, 1),
        ("game_lengths", 0, None),
        ("weight_version", 0, None),
        ("environment_id", 0, None),
    ):
        found = layout.array(rows, name)
        if found.size and (found.min() < low or (high is not None and found.max() > high)):
            wanted = f"at least {low}" if high is None else f"between {low} and {high}"
            raise ContentError(f"{place}: the {name} of all unrolls must be {wanted}")
    for name in FINITE:
        if not np.isfinite(layout.array(rows, name)).all():
            raise ContentError(f"{place}: the {name} of all unrolls must be finite numbers")
