"""Composite actions of choices and real numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.distributions import Categorical, DiagonalGaussian, Mixed

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)


def parts(policy: Mixed, seed: int, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    counts = policy.choices.parameter_count, policy.numbers.parameter_count
    logits, normal = (torch.from_numpy(rng.normal(0, 1, (*shape, count))) for count in counts)
    return logits, normal


@settings(deadline=None)
@given(sizes=SIZES, dimensions=st.integers(1, 3), seed=st.integers(0, 2**31))
@pytest.mark.slow
def test_it_is_the_product_of_its_parts(sizes: tuple[int, ...], dimensions: int, seed: int) -> None:
    policy = Mixed(Categorical(sizes), DiagonalGaussian(dimensions))
    (p1, p2), (q1, q2) = parts(policy, seed, 4), parts(policy, seed + 1, 4)
    p, q = torch.cat([p1, p2], -1), torch.cat([q1, q2], -1)
    uniforms = torch.from_numpy(np.random.default_rng(seed).random((4, len(sizes) + dimensions)))
    actions = policy.sample(p, uniforms)
    chosen, numbers = actions[:, : len(sizes)], actions[:, len(sizes) :]
    assert torch.equal(chosen.long(), policy.choices.sample(p1, uniforms[:, : len(sizes)]))
    assert torch.equal(numbers, policy.numbers.sample(p2, uniforms[:, len(sizes) :]))
    torch.testing.assert_close(
        policy.log_prob(p, actions), policy.choices.log_prob(p1, chosen) + policy.numbers.log_prob(p2, numbers)
    )
    torch.testing.assert_close(policy.entropy(p), policy.choices.entropy(p1) + policy.numbers.entropy(p2))
    torch.testing.assert_close(
        policy.kl_divergence(p, q), policy.choices.kl_divergence(p1, q1) + policy.numbers.kl_divergence(p2, q2)
    )
    best = policy.most_likely(p)
    assert (policy.log_prob(p, best) >= policy.log_prob(p, actions) - 1e-9).all()
    assert policy.encode(actions).shape == (4, policy.encoded_size) == policy.as_bars(p).shape


def test_the_implied_divergence_is_close_to_a_mean_over_many_samples() -> None:
    policy, rho_bar = Mixed(Categorical((3,)), DiagonalGaussian(1)), 1.0
    target, behaviour = (torch.cat(parts(policy, seed), -1) for seed in (0, 1))
    found = policy.implied_divergence(target, behaviour, rho_bar)
    uniforms = torch.from_numpy(np.random.default_rng(2).random((200_000, 2)))
    actions = policy.sample(target[None], uniforms)
    ratios = policy.log_prob(target[None], actions) - policy.log_prob(behaviour[None], actions)
    kept = ratios.clamp(min=0)  # log of π / min(ρ̄·μ, π)
    expected = kept.mean() + (-kept).exp().mean().log()
    assert abs(float(found - expected)) < 0.1 * float(expected)
    assert float(policy.implied_divergence(target, target, rho_bar)) == 0
