"""Whether two learners make the same updates, and losses and optimizers for which they should."""

import dataclasses
from typing import Any

import pytest
import torch

from agents.learner import Learner
from option_flags import LossOptions, OptimizerOptions
from replay.mix import Batch
from tests.agents.learners import ALL_TERMS, reported
from tests.agents.test_impact import IMPACT

MIXED = [True, True, False, False, False]
# Not the tiny ones of the defaults, with which the rounding of a gradient near 0 decides a whole step.
OPTIMIZERS = [
    OptimizerOptions(optimizer="rmsprop", lr=1e-3, rmsprop_eps=1e-2),
    OptimizerOptions(optimizer="adam", lr=1e-3, adam_eps=1e-2),
]
LOSSES = {
    "mean": ALL_TERMS,
    "sum": dataclasses.replace(ALL_TERMS, loss_reduction="sum"),
    "impact": dataclasses.replace(IMPACT, use_kl_mask=True, impact_target_period=2),
    "defaults": LossOptions(),
}


def assert_same_learner(one: Learner, other: Learner) -> None:
    """Weights, statistics, target and the state of the optimizer."""
    assert one.updates == other.updates
    states = [tensors_of(each.state_dict()) for each in (one, other)]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[1].items():
        torch.testing.assert_close(states[0][name], tensor, rtol=1e-5, atol=1e-6, msg=name)


def tensors_of(state: Any, name: str = "") -> dict[str, torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return {name: state}
    parts = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else []
    return {path: tensor for key, part in parts for path, tensor in tensors_of(part, f"{name}/{key}").items()}


def assert_same_updates(one: Learner, other: Learner, batches: list[Batch]) -> None:
    for batch in batches:
        figures, expected = reported(one, batch), reported(other, batch)
        assert list(figures) == list(expected)
        assert figures == pytest.approx(expected, rel=1e-5, abs=1e-6, nan_ok=True)
    assert_same_learner(one, other)


def out_of_memory() -> torch.OutOfMemoryError:
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
