from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from agents.vtrace import VTrace, vtrace
from tests.agents.slow_versions import Steps, vtrace_advantages, vtrace_targets

FIELDS = ("log_ratios", "discounts", "rewards", "values", "bootstrap_value")


def run(steps: Steps, rho_bar: float, c_bar: float, trace_lambda: float, trusted: NDArray[Any] | None = None) -> VTrace:
    tensors = {name: torch.tensor(array) for name, array in steps._asdict().items()}
    mask = everywhere(tensors["rewards"]) if trusted is None else torch.tensor(trusted)
    return vtrace(**tensors, rho_bar=rho_bar, c_bar=c_bar, trace_lambda=trace_lambda, trusted=mask)


def everywhere(tensor: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(tensor, dtype=torch.bool)


def random_steps(rng: np.random.Generator, steps: int, batch: int, gamma: float = 0.9, end: float = 0.2) -> Steps:
    return Steps(
        log_ratios=rng.normal(0, 1, (steps, batch)),
        discounts=np.where(rng.random((steps, batch)) < end, 0.0, gamma),
        rewards=rng.normal(0, 1, (steps, batch)),
        values=rng.normal(0, 2, (steps, batch)),
        bootstrap_value=rng.normal(0, 2, batch),
    )


@settings(deadline=None)
@given(
    steps=st.integers(1, 7),
    batch=st.integers(1, 3),
    rho_bar=st.sampled_from([0.7, 1.0, 2.5]),
    c_part=st.sampled_from([0.3, 1.0]),
    trace_lambda=st.sampled_from([0.0, 0.8, 1.0]),
    masked=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_targets_and_advantages_match_the_paper(
    steps: int, batch: int, rho_bar: float, c_part: float, trace_lambda: float, masked: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    data = random_steps(rng, steps, batch)
    trusted = rng.random((steps, batch)) < 0.7 if masked else np.ones((steps, batch), bool)
    c_bar = rho_bar * c_part
    result = run(data, rho_bar, c_bar, trace_lambda, trusted if masked else None)
    targets = vtrace_targets(data, rho_bar, c_bar, trace_lambda, trusted)
    np.testing.assert_allclose(result.targets, targets, rtol=1e-9, atol=1e-9)
    advantages = vtrace_advantages(data, targets, rho_bar, trusted)
    np.testing.assert_allclose(result.advantages, advantages, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(result.ratios, np.exp(data.log_ratios), rtol=1e-12)


def test_float32_inputs_give_float32_outputs() -> None:
    data = random_steps(np.random.default_rng(0), 20, 8)
    tensors = {name: torch.tensor(array).float() for name, array in data._asdict().items()}
    trusted = everywhere(tensors["rewards"])
    single = vtrace(**tensors, rho_bar=1.0, c_bar=1.0, trace_lambda=0.95, trusted=trusted)
    assert {tensor.dtype for tensor in single} == {torch.float32}
    targets = vtrace_targets(data, 1.0, 1.0, 0.95, np.ones((20, 8), bool))
    np.testing.assert_allclose(single.targets, targets, rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(steps=st.integers(1, 8), seed=st.integers(0, 2**31))
def test_on_policy_without_lambda_targets_are_n_step_returns(steps: int, seed: int) -> None:
    data = random_steps(np.random.default_rng(seed), steps, 2)
    data = data._replace(log_ratios=np.zeros((steps, 2)))
    result = run(data, rho_bar=1.0, c_bar=1.0, trace_lambda=1.0)
    for s, b in np.ndindex(steps, 2):
        expected, discount = 0.0, 1.0
        for t in range(s, steps):
            expected += discount * float(data.rewards[t, b])
            discount *= float(data.discounts[t, b])
        expected += discount * float(data.bootstrap_value[b])
        np.testing.assert_allclose(result.targets[s, b], expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(result.advantages[s, b], expected - data.values[s, b], rtol=1e-9, atol=1e-9)


def test_targets_depend_on_their_own_episode_only() -> None:
    rng = np.random.default_rng(0)
    data, other = random_steps(rng, 9, 2, end=0.0), random_steps(rng, 9, 2, end=0.0)
    data.discounts[4] = 0
    for array, replacement in zip(data[:4], other[:4], strict=True):
        replacement[:5] = array[:5]
    before, after = run(data, 1.5, 1.0, 0.9), run(other, 1.5, 1.0, 0.9)
    for first, second in zip(before, after, strict=True):
        assert torch.equal(first[:5], second[:5])
        assert not torch.isclose(first[5:], second[5:]).any()


def test_an_untrusted_state_keeps_its_value_and_cuts_the_trace() -> None:
    rng = np.random.default_rng(0)
    data, other = random_steps(rng, 9, 2, end=0.0), random_steps(rng, 9, 2, end=0.0)
    trusted = np.ones((9, 2), bool)
    trusted[4] = False
    for array, replacement in zip(data[:4], other[:4], strict=True):
        replacement[:4] = array[:4]
    other.values[4] = data.values[4]  # the trace still bootstraps from the value of this state
    before, after = run(data, 1.5, 1.0, 0.9, trusted), run(other, 1.5, 1.0, 0.9, trusted)
    assert torch.equal(before.targets[:5], after.targets[:5])
    assert torch.equal(before.advantages[:4], after.advantages[:4])
    np.testing.assert_array_equal(before.targets[4], data.values[4])
    assert not torch.isclose(before.targets[:4], run(data, 1.5, 1.0, 0.9).targets[:4]).any()


def test_overflowing_ratios_give_finite_targets() -> None:
    data = random_steps(np.random.default_rng(0), 4, 2)
    data.log_ratios[:] = [[1e4, -1e4]] * 4
    result = run(data, 1.0, 1.0, 1.0)
    assert torch.isfinite(result.targets).all() and torch.isfinite(result.advantages).all()
    np.testing.assert_array_equal(result.targets[:, 1], data.values[:, 1])


def test_inputs_are_not_changed_and_outputs_have_no_gradient() -> None:
    data = random_steps(np.random.default_rng(0), 4, 2)
    tensors = {name: torch.tensor(array, requires_grad=True) for name, array in data._asdict().items()}
    trusted = everywhere(tensors["rewards"])
    result = vtrace(**tensors, rho_bar=1.0, c_bar=1.0, trace_lambda=1.0, trusted=trusted)
    assert not any(tensor.requires_grad for tensor in result)
    for name, array in data._asdict().items():
        np.testing.assert_array_equal(tensors[name].detach(), array)


def steps_with_shape(name: str, shape: tuple[int, ...]) -> dict[str, torch.Tensor]:
    tensors = {field: torch.zeros(4, 3) for field in FIELDS[:4]} | {"bootstrap_value": torch.zeros(3)}
    tensors["trusted"] = torch.ones(4, 3, dtype=torch.bool)
    tensors[name] = torch.zeros(shape, dtype=tensors[name].dtype)
    return tensors


@pytest.mark.parametrize(
    ("name", "shape"),
    [(name, shape) for name in FIELDS[:4] for shape in ((4, 1), (5, 3))]
    + [("log_ratios", (4,)), ("log_ratios", (4, 3, 1))]
    + [("bootstrap_value", shape) for shape in ((1,), (4,), (3, 1))]
    + [("trusted", shape) for shape in ((4, 1), (5, 3))],
)
def test_wrong_shapes_are_refused(name: str, shape: tuple[int, ...]) -> None:
    good = {"rho_bar": 1.0, "c_bar": 1.0, "trace_lambda": 1.0}
    vtrace(**steps_with_shape("rewards", (4, 3)), **good)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must be \["):
        vtrace(**steps_with_shape(name, shape), **good)  # type: ignore[arg-type]


def test_steps_without_a_batch_are_refused() -> None:
    tensors = {name: torch.zeros(4) for name in FIELDS[:4]} | {"bootstrap_value": torch.zeros(())}
    with pytest.raises(ValueError, match=r"must be \[T, B\]"):
        vtrace(**tensors, rho_bar=1.0, c_bar=1.0, trace_lambda=1.0, trusted=everywhere(tensors["rewards"]))


def test_rho_bar_below_c_bar_is_refused() -> None:
    data = random_steps(np.random.default_rng(0), 2, 2)
    with pytest.raises(ValueError, match="must not be below c_bar"):
        run(data, rho_bar=0.9, c_bar=1.0, trace_lambda=1.0)
