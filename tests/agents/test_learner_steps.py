"""Steps of the optimizers, gradient clipping and the learning rate."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agents.acting import flat_weights
from option_flags import OptimizerOptions
from tests.agents.learners import (
    ALL_TERMS,
    gradients,
    gradients_of,
    inputs_of,
    length_of,
    make_batch,
    make_learner,
    reported,
    weights_of,
)


def test_gradients_are_clipped_by_norm() -> None:
    batch = make_batch([True] * 3)
    free = make_learner(optimizer=OptimizerOptions(gradient_clip_by_norm_threshold=0))
    length = reported(free, batch)["gradient_norm"]
    full = gradients(free)
    assert length == pytest.approx(length_of(full), rel=1e-4)
    for threshold in (0.5 * length, 2 * length):
        clipped = make_learner(optimizer=OptimizerOptions(gradient_clip_by_norm_threshold=threshold))
        assert reported(clipped, batch)["gradient_norm"] == pytest.approx(length, rel=1e-4)
        shortened = gradients(clipped)
        factor = min(1.0, threshold / length)
        assert length_of(shortened) == pytest.approx(factor * length, rel=1e-4)
        for name, gradient in shortened.items():
            torch.testing.assert_close(gradient, factor * full[name], rtol=1e-3, atol=1e-7)


def test_rmsprop_steps_match_the_definition() -> None:
    alpha, eps = 0.8, 0.02
    options = OptimizerOptions(lr=0.01, lr_end_value=0.001, rmsprop_alpha=alpha, rmsprop_eps=eps)
    learner, batch = make_learner(optimizer=options, schedule_updates=2), make_batch([True] * 3)
    expected = weights_of(learner)
    squares = [np.zeros_like(weight) for weight in expected]
    for step, scheduled in enumerate((0.01, 0.0055, 0.001, 0.001), 1):
        learner.update(batch)
        correction = (1 - alpha**step) ** 0.5  # of the mean of squares, which starts at 0
        for i, gradient in enumerate(gradients_of(learner)):
            squares[i] = alpha * squares[i] + (1 - alpha) * gradient**2
            expected[i] = expected[i] - scheduled * correction * gradient / (np.sqrt(squares[i]) + eps)
        for weight, slow in zip(weights_of(learner), expected, strict=True):
            np.testing.assert_allclose(weight, slow, rtol=1e-4, atol=1e-6)


def test_adam_steps_match_the_definition() -> None:
    beta1, beta2, eps = 0.9, 0.999, 0.01
    options = OptimizerOptions(optimizer="adam", lr=0.01, adam_eps=eps)
    learner, batch = make_learner(optimizer=options, schedule_updates=4), make_batch([True] * 3)
    expected = weights_of(learner)
    means, squares = ([np.zeros_like(weight) for weight in expected] for _ in range(2))
    for step, rate in enumerate((0.01, 0.0075, 0.005), start=1):
        learner.update(batch)
        for i, gradient in enumerate(gradients_of(learner)):
            means[i] = beta1 * means[i] + (1 - beta1) * gradient
            squares[i] = beta2 * squares[i] + (1 - beta2) * gradient**2
            mean, square = means[i] / (1 - beta1**step), squares[i] / (1 - beta2**step)
            expected[i] = expected[i] - rate * mean / (np.sqrt(square) + eps)
        for weight, slow in zip(weights_of(learner), expected, strict=True):
            np.testing.assert_allclose(weight, slow, rtol=1e-4, atol=1e-6)


def test_the_learning_rate_decays_linearly_and_then_stays() -> None:
    learner = make_learner(optimizer=OptimizerOptions(lr=1.0, lr_end_value=0.1), schedule_updates=4)
    for updates, rate in {0: 1.0, 1: 0.775, 2: 0.55, 4: 0.1, 9: 0.1}.items():
        learner.updates = updates
        assert learner.learning_rate == pytest.approx(rate)
        assert reported(learner, make_batch([True]))["learning_rate"] == pytest.approx(rate)
        assert learner.updates == updates + 1


@pytest.mark.parametrize(
    ("end", "weights"), [(0.1, {0: 0.5, 1: 0.4, 2: 0.3, 4: 0.1, 9: 0.1}), (None, {0: 0.5, 3: 0.5, 9: 0.5})]
)
def test_the_weight_of_the_entropy_bonus_changes_linearly_and_then_stays(
    end: float | None, weights: dict[int, float]
) -> None:
    """The losses are those of learners that have this weight throughout."""
    changing = replace(ALL_TERMS, entropy_loss_weight=0.5, entropy_loss_end_weight=end)
    for updates, weight in weights.items():
        learner = make_learner(changing, schedule_updates=4)
        learner.updates = updates
        same = make_learner(replace(ALL_TERMS, entropy_loss_weight=weight), schedule_updates=4)
        loss, expected = (reported(each, make_batch([True]))["entropy_loss"] for each in (learner, same))
        assert loss == pytest.approx(expected) != 0


@pytest.mark.parametrize(
    ("warmup", "schedule", "expected"),
    [
        (4, 40, [1 / 4, 39 / 80, 57 / 80, 37 / 40, 36 / 40, 35 / 40]),
        (300, 20, [1 / 2, 19 / 20, 18 / 20, 17 / 20, 16 / 20, 15 / 20]),  # never more than a tenth of the schedule
        (300, 9, [9 / 9, 8 / 9, 7 / 9, 6 / 9, 5 / 9, 4 / 9]),
    ],
)
def test_the_learning_rate_is_warmed_up(warmup: int, schedule: int, expected: list[float]) -> None:
    learner = make_learner(optimizer=OptimizerOptions(lr=1.0), schedule_updates=schedule, warmup=warmup)
    rates = []
    for _ in range(6):
        rates.append(learner.learning_rate)
        learner.update(make_batch([True]))
    assert rates == pytest.approx(expected)


def test_a_learning_rate_of_zero_changes_no_weight() -> None:
    """The second update reports the same gradient: no gradient is left over from the first."""
    learner, batch = make_learner(schedule_updates=3), make_batch([True])
    learner.updates = 3
    learner.network.update_background_mean(inputs_of(batch).observations[0], 1.0)
    before = flat_weights(learner.network)
    reports = [reported(learner, batch) for _ in range(2)]
    assert reports[0]["learning_rate"] == 0
    torch.testing.assert_close(flat_weights(learner.network), before)
    assert reports[1] == pytest.approx(reports[0], rel=1e-6, nan_ok=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {"rmsprop_alpha": 0.9}), ({}, {"optimizer": "adam"}), ({}, {"lr": 1e-2})],
)
def test_an_optimizer_is_resumed_with_other_options(before: dict[str, Any], after: dict[str, Any]) -> None:
    first, second = make_learner(None, OptimizerOptions(**before)), make_learner(None, OptimizerOptions(**after))
    batch = make_batch([True] * 2)
    first.update(batch)
    second.load_state_dict(first.state_dict())
    if "lr" in after:
        saved, loaded = (learner.state_dict()["optimizer"]["squares"] for learner in (first, second))
        for one, other in zip(saved, loaded, strict=True):
            assert one.any() and torch.equal(one, other), "the averages go on"
    weights = weights_of(second)
    second.update(batch)
    assert second.updates == 2
    assert all(
        np.isfinite(new).all() and (new != old).any() for new, old in zip(weights_of(second), weights, strict=True)
    )


@pytest.mark.slow
def test_an_update_loads_no_compiler() -> None:
    """Loading that of torch takes as long as loading torch."""
    program = (
        "import sys, torch; from machine.device import prepare_torch; from tests.agents.learners import *;"
        "prepare_torch(torch.device('cpu'), True);"
        "learners = [make_learner(None, OptimizerOptions(optimizer=name)) for name in ('adam', 'rmsprop')];"
        "[learner.update(make_batch([True])) for learner in learners];"
        "print({'torch._dynamo', 'torch._inductor'} & set(sys.modules), torch.are_deterministic_algorithms_enabled())"
    )
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout == "set() True\n"
