"""KL(π ‖ π̃), π̃ ∝ min(ρ̄·μ, π), where it is enumerated, and where it is a mean over fixed points."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.distributions import (
    MOST_ENUMERATED,
    POINTS,
    Categorical,
    DiagonalGaussian,
    PolicyDistribution,
    fixed_points,
    one_choice,
)
from tests.agents.slow_versions import Array, kl, probabilities

LARGE = (7, 7, 7)  # more combinations than are enumerated
POLICIES: list[PolicyDistribution] = [
    one_choice(4),
    Categorical((2, 3)),
    Categorical(LARGE),
    DiagonalGaussian(3),
]


def near(policy: PolicyDistribution, seed: int, distance: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A policy and another one at about this distance: `[40, P]` each."""
    rng = np.random.default_rng(seed)
    target = rng.normal(0, 0.5, (40, policy.parameter_count))
    return torch.from_numpy(target), torch.from_numpy(target + rng.normal(0, distance, target.shape))


def joint(logits: Array, sizes: tuple[int, ...]) -> Array:
    """The probability of every combination of choices."""
    factors = np.split(logits, np.cumsum(sizes)[:-1])
    return np.array([np.prod(combination) for combination in itertools.product(*map(probabilities, factors))])


def slow_product(target: Array, behaviour: Array, sizes: tuple[int, ...], rho_bar: float) -> float:
    pi, mu = joint(target, sizes), joint(behaviour, sizes)
    implied = np.minimum(rho_bar * mu, pi)
    return kl(pi, implied / implied.sum())


@settings(deadline=None)
@given(
    sizes=st.sampled_from([(2, 3), (4,), (1, 5, 2), (2,) * 8]),
    seed=st.integers(0, 2**31),
    rho_bar=st.sampled_from([0.5, 1.0, 2.0]),
)
@pytest.mark.slow
def test_small_products_are_enumerated(sizes: tuple[int, ...], seed: int, rho_bar: float) -> None:
    target, behaviour = near(Categorical(sizes), seed, 0.7)
    found = Categorical(sizes).implied_divergence(target[:4], behaviour[:4], rho_bar)
    expected = [slow_product(target[i].numpy(), behaviour[i].numpy(), sizes, rho_bar) for i in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("rho_bar", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("distance", [0.1, 0.5])
def test_large_products_are_near_the_enumeration(rho_bar: float, distance: float) -> None:
    assert np.prod(LARGE) > MOST_ENUMERATED
    target, behaviour = near(Categorical(LARGE), 0, distance)
    found = Categorical(LARGE).implied_divergence(target, behaviour, rho_bar).numpy()
    expected = [slow_product(target[i].numpy(), behaviour[i].numpy(), LARGE, rho_bar) for i in range(40)]
    np.testing.assert_allclose(found, expected, rtol=0.5, atol=0.003)
    assert abs(found.mean() - np.mean(expected)) < 0.1 * np.mean(expected) + 0.001


def integrated(target: torch.Tensor, behaviour: torch.Tensor, rho_bar: float) -> float:
    """KL(π ‖ π̃) of two policies of one real number, by integrals over a grid."""
    policy = DiagonalGaussian(1)
    x = torch.linspace(-30, 30, 400_001, dtype=torch.float64)
    log_pi, log_mu = policy.log_prob(target, x[:, None]), policy.log_prob(behaviour, x[:, None])
    log_implied = torch.minimum(log_pi, log_mu + np.log(rho_bar))
    log_implied = log_implied - torch.trapezoid(log_implied.exp(), x).log()
    return float(torch.trapezoid(log_pi.exp() * (log_pi - log_implied), x))


@pytest.mark.parametrize("rho_bar", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("distance", [0.1, 0.5])
@pytest.mark.slow
def test_of_one_real_number_it_is_near_the_integral(rho_bar: float, distance: float) -> None:
    target, behaviour = near(DiagonalGaussian(1), 1, distance)
    found = DiagonalGaussian(1).implied_divergence(target, behaviour, rho_bar).numpy()
    expected = [integrated(target[i], behaviour[i], rho_bar) for i in range(40)]
    np.testing.assert_allclose(found, expected, rtol=0.2, atol=0.001)


@pytest.mark.parametrize("distance", [0.1, 0.3])
@pytest.mark.slow
def test_of_many_real_numbers_it_is_near_the_mean_over_many_actions(distance: float) -> None:
    policy = DiagonalGaussian(6)
    target, behaviour = near(policy, 2, distance)
    uniforms = torch.from_numpy(np.random.default_rng(0).random((20_000, 6)))
    actions = policy.sample(target.unsqueeze(-2), uniforms).double()
    log_ratios = policy.log_prob(target.unsqueeze(-2), actions) - policy.log_prob(behaviour.unsqueeze(-2), actions)
    excess = log_ratios.clamp(min=0).numpy()  # ρ̄ is 1
    expected = excess.mean(-1) + np.log(np.exp(-excess).mean(-1))
    found = policy.implied_divergence(target, behaviour, 1.0).numpy()
    assert np.corrcoef(found, expected)[0, 1] > 0.97
    np.testing.assert_allclose(found, expected, rtol=0.5, atol=0.003)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("rho_bar", [1.0, 3.0])
def test_it_is_zero_where_the_ratio_never_exceeds_rho_bar_and_never_negative(
    policy: PolicyDistribution, rho_bar: float
) -> None:
    target, behaviour = near(policy, 3, 0.5)
    assert policy.implied_divergence(target, target, rho_bar).abs().max() < 1e-12
    divergence = policy.implied_divergence(target, behaviour, rho_bar)
    assert divergence.shape == (40,) and (divergence > -1e-12).all() and divergence.max() > 0.001


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_it_is_large_where_the_acting_policy_never_acts_like_the_target(policy: PolicyDistribution) -> None:
    target = torch.zeros(policy.parameter_count)
    behaviour = torch.zeros(policy.parameter_count)
    behaviour[0] = -1e4
    assert policy.implied_divergence(target, behaviour, 1.0) > 0.25
    assert policy.implied_divergence(target.float(), behaviour.float(), 1.0).isfinite()


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_it_has_no_gradient_and_repeats_exactly(policy: PolicyDistribution) -> None:
    target, behaviour = near(policy, 4, 0.5)
    first = policy.implied_divergence(target.requires_grad_(), behaviour, 1.0)
    torch.manual_seed(5)
    fixed_points.cache_clear()
    assert torch.equal(first, policy.implied_divergence(target, behaviour, 1.0)) and not first.requires_grad


@pytest.mark.parametrize("dimensions", [1, 3, 40])
def test_the_fixed_points_fill_every_dimension_evenly(dimensions: int) -> None:
    state = torch.get_rng_state()
    fixed_points.cache_clear()
    points = fixed_points(dimensions)
    assert torch.equal(torch.get_rng_state(), state), "nothing else's random numbers change"
    assert points.shape == (POINTS, dimensions) and points.dtype == torch.float64
    for dimension in points.T:  # one point in each of 128 equal parts
        assert sorted((dimension * POINTS).long().tolist()) == list(range(POINTS))
