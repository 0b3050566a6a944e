import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.distributions import (
    LARGEST_LOG_DEVIATION,
    SMALLEST_LOG_DEVIATION,
    DiagonalGaussian,
)

ALMOST_ONE = float(np.nextafter(1.0, 0.0))


def random_parameters(dimensions: int, seed: int, *shape: int) -> torch.Tensor:
    """Means, and logarithms of deviations of which some are outside the range."""
    rng = np.random.default_rng(seed)
    means, logs = rng.normal(0, 2, (*shape, dimensions)), rng.uniform(-7, 4, (*shape, dimensions))
    return torch.from_numpy(np.concatenate([means, logs], -1))


def reference(parameters: torch.Tensor) -> torch.distributions.Distribution:
    means, logs = parameters.chunk(2, -1)
    deviations = logs.clamp(SMALLEST_LOG_DEVIATION, LARGEST_LOG_DEVIATION).exp()
    return torch.distributions.Independent(torch.distributions.Normal(means, deviations), 1)


@settings(deadline=None)
@given(dimensions=st.integers(1, 6), seed=st.integers(0, 2**31))
def test_it_is_the_product_of_normal_distributions(dimensions: int, seed: int) -> None:
    policy = DiagonalGaussian(dimensions)
    p, q = random_parameters(dimensions, seed, 3, 2), random_parameters(dimensions, seed + 1, 3, 2)
    mine, theirs = reference(p), reference(q)
    actions = mine.sample()
    torch.testing.assert_close(policy.log_prob(p, actions), mine.log_prob(actions))
    torch.testing.assert_close(policy.entropy(p), mine.entropy())
    torch.testing.assert_close(policy.kl_divergence(p, q), torch.distributions.kl_divergence(mine, theirs))
    assert torch.equal(policy.most_likely(p), p[..., :dimensions].float())


def test_densities_entropy_and_divergence_match_numeric_integrals() -> None:
    policy = DiagonalGaussian(1)
    p, q = torch.tensor([0.4, -0.3]).double(), torch.tensor([-0.2, 0.2]).double()
    x = torch.linspace(-9, 9, 100_001, dtype=torch.float64)
    log_p, log_q = (policy.log_prob(each, x[:, None]) for each in (p, q))
    assert torch.trapezoid(log_p.exp(), x).item() == pytest.approx(1, abs=1e-9)
    assert torch.trapezoid(-log_p.exp() * log_p, x).item() == pytest.approx(policy.entropy(p).item(), abs=1e-9)
    divergence = torch.trapezoid(log_p.exp() * (log_p - log_q), x).item()
    assert divergence == pytest.approx(policy.kl_divergence(p, q).item(), abs=1e-9)


def test_sampling_inverts_the_distribution_function() -> None:
    policy, parameters = DiagonalGaussian(3), random_parameters(3, 0, 50)
    uniforms = torch.from_numpy(np.random.default_rng(1).random((50, 3)))
    actions = policy.sample(parameters, uniforms)
    assert actions.dtype == torch.float32 and actions.shape == (50, 3)
    means, deviations = policy.means_and_deviations(parameters)
    below = torch.distributions.Normal(means, deviations).cdf(actions.double())  # type: ignore[no-untyped-call]
    # Near a mean that is large in units of a small deviation, float32 numbers are some 1e-4 deviations apart.
    torch.testing.assert_close(below, uniforms, rtol=0, atol=1e-3)


def test_the_mean_and_deviation_of_many_actions_are_those_of_the_policy() -> None:
    policy, draws = DiagonalGaussian(2), 100_000
    parameters = torch.tensor([0.5, -1.0, -0.7, 0.3])
    uniforms = torch.rand(draws, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    actions = policy.sample(parameters.expand(draws, 4), uniforms)
    errors = (actions.mean(0) - parameters[:2]) / parameters[2:].exp() * math.sqrt(draws)
    assert errors.abs().max() < 5  # standard errors
    torch.testing.assert_close(actions.std(0), parameters[2:].exp(), rtol=0.012, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_extreme_uniform_numbers_give_finite_actions_on_both_sides(dtype: torch.dtype) -> None:
    policy, parameters = DiagonalGaussian(2), torch.tensor([0.0, 1.0, 0.0, 0.0])
    extremes = torch.tensor([[0.0, 0.0], [ALMOST_ONE, ALMOST_ONE]], dtype=dtype)
    low, high = policy.sample(parameters.expand(2, 4), extremes)
    assert torch.isfinite(low).all() and torch.isfinite(high).all()
    assert (low - parameters[:2] < -8).all()
    torch.testing.assert_close(high - parameters[:2], parameters[:2] - low)


@pytest.mark.parametrize("beyond", [-50.0, 30.0])
def test_deviations_beyond_the_range_count_as_its_ends_everywhere(beyond: float) -> None:
    policy, end = DiagonalGaussian(1), LARGEST_LOG_DEVIATION if beyond > 0 else SMALLEST_LOG_DEVIATION
    outside, inside = torch.tensor([0.3, beyond]), torch.tensor([0.3, end])
    other, action, uniform = torch.tensor([0.1, -1.0]), torch.tensor([0.31]), torch.tensor([0.8])
    for function in (
        lambda p: policy.log_prob(p, action),
        policy.entropy,
        lambda p: policy.kl_divergence(p, other),
        lambda p: policy.kl_divergence(other, p),
        lambda p: policy.sample(p, uniform),
        lambda p: policy.implied_divergence(p, other, 1.0),
    ):
        result = function(outside)
        assert torch.equal(result, function(inside)) and torch.isfinite(result).all()


def finite_difference(function: object, at: torch.Tensor) -> torch.Tensor:
    assert callable(function)
    steps = 1e-6 * torch.eye(len(at), dtype=at.dtype)
    return torch.stack([(function(at + step) - function(at - step)) / 2e-6 for step in steps])


def test_gradients_match_finite_differences() -> None:
    policy, action = DiagonalGaussian(2), torch.tensor([0.4, -1.2], dtype=torch.float64)
    p, q = torch.tensor([0.1, -0.5, -0.4, 0.6]).double(), torch.tensor([0.3, 0.2, 0.1, -0.2]).double()
    for function in (
        lambda x: policy.log_prob(x, action),
        policy.entropy,
        lambda x: policy.kl_divergence(x, q),
        lambda x: policy.kl_divergence(q, x),
    ):
        at = p.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(function(at), at)
        torch.testing.assert_close(gradient, finite_difference(function, p), rtol=1e-6, atol=1e-8)


def test_the_encoding_stays_within_the_bounds() -> None:
    encoded = DiagonalGaussian(3).encode(torch.tensor([[-7.0, 0.25, 1.5]]))
    assert encoded.tolist() == [[-1.0, 0.25, 1.0]] and encoded.dtype == torch.float32


def test_bars_show_the_means_and_the_spread_measures_them_in_deviations() -> None:
    policy = DiagonalGaussian(2)
    parameters = torch.tensor([[0.0, -3.0, math.log(0.5), 0.0], [1.0, 3.0, math.log(0.5), 0.0]])
    torch.testing.assert_close(policy.as_bars(parameters), torch.tensor([[0.5, 0.0], [1.0, 1.0]]))
    # The means deviate by 0.5 and 3 from their own means.
    assert policy.spread(parameters[None]).item() == pytest.approx((0.5 / 0.5 + 3) / 2)
    assert policy.spread(parameters[:1].expand(6, 5, 4)).item() == 0
