import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.distributions import one_choice
from tests.agents import slow_versions
from tests.agents.slow_versions import probabilities

ALMOST_ONE = float(np.nextafter(1.0, 0.0))


@settings(deadline=None)
@given(
    actions=st.integers(1, 18),
    spread=st.sampled_from([0.1, 1.0, 8.0]),
    seed=st.integers(0, 2**31),
    double=st.booleans(),
)
@pytest.mark.slow
def test_entropy_and_kl_match_their_definitions(actions: int, spread: float, seed: int, double: bool) -> None:
    rng = np.random.default_rng(seed)
    dtype = np.float64 if double else np.float32
    p_logits, q_logits = rng.normal(0, spread, (2, 3, 2, actions)).astype(dtype)
    chosen = rng.integers(0, actions, (3, 2))
    p, q = torch.from_numpy(p_logits), torch.from_numpy(q_logits)
    policy = one_choice(actions)
    results = {
        "probability": policy.as_bars(p).amax(-1),
        "log_prob": policy.log_prob(p, torch.from_numpy(chosen).int()),
        "entropy": policy.entropy(p),
        "kl": policy.kl_divergence(p, q),
    }
    tolerance = 1e-9 if double else 1e-4
    for result in results.values():
        assert result.shape == (3, 2)
    for place in np.ndindex(3, 2):
        pi = probabilities(p_logits[place].astype(np.float64))
        mu = probabilities(q_logits[place].astype(np.float64))
        expected = {
            "probability": float(pi.max()),
            "log_prob": float(np.log(pi[chosen[place]])),
            "entropy": slow_versions.entropy(pi),
            "kl": slow_versions.kl(pi, mu),
        }
        for name, value in expected.items():
            np.testing.assert_allclose(results[name][place].item(), value, rtol=tolerance, atol=tolerance)


def test_a_constant_added_to_the_logits_changes_nothing() -> None:
    logits = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(one_choice(6).entropy(logits + 7), one_choice(6).entropy(logits))
    assert one_choice(6).kl_divergence(logits, logits - 3).abs().max() < 1e-12


def test_sampling_at_the_edges_between_actions() -> None:
    """Four actions of probability 1/4: their sums are exact in binary."""
    edges = [0.25, 0.5, 0.75]
    below = [float(np.nextafter(edge, 0.0)) for edge in edges]
    uniforms = torch.tensor([0.0, *below, *edges, ALMOST_ONE], dtype=torch.float64)
    assert one_choice(4).sample(torch.full((8, 4), 1.7), uniforms).tolist() == [0, 0, 1, 2, 1, 2, 3, 3]


@settings(deadline=None)
@given(actions=st.integers(1, 18), seed=st.integers(0, 2**31))
def test_sampling_inverts_the_cumulative_distribution(actions: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, uniforms = rng.normal(0, 3, (3, 7, actions)), rng.random((3, 7))
    drawn = one_choice(actions).sample(torch.from_numpy(logits), torch.from_numpy(uniforms))
    assert drawn.dtype == torch.int64
    for place in np.ndindex(3, 7):
        action, total = 0, 0.0
        for probability in probabilities(logits[place]):
            total += float(probability)
            if uniforms[place] < total:
                break
            action += 1
        assert drawn[place] == action


def test_actions_are_as_frequent_as_their_probabilities() -> None:
    draws = 30_000
    logits = torch.tensor([0.3, -1.0, 2.0, 0.0, -2.5, 1.0])
    uniforms = torch.rand(draws, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    counts = one_choice(6).sample(logits.expand(draws, 6), uniforms).bincount(minlength=6).numpy()
    expected = draws * probabilities(logits.double().numpy())
    # 5 degrees of freedom: the sum of fair draws is above 40 less than once in a million.
    assert ((counts - expected) ** 2 / expected).sum() < 40


@pytest.mark.parametrize("actions", [1, 2, 6, 18])
def test_the_largest_uniform_numbers_give_a_valid_action(actions: int) -> None:
    logits = torch.randn(5000, actions, generator=torch.Generator().manual_seed(0)) * 3
    for largest in (torch.full((5000,), ALMOST_ONE, dtype=torch.float64), torch.full((5000,), 1 - 2**-24)):
        drawn = one_choice(actions).sample(logits, largest)
        assert drawn.min() >= 0
        assert drawn.max() == actions - 1


@pytest.mark.parametrize("certain", [0, 1, 3])
@pytest.mark.parametrize("size", [1e4, 1e30])
def test_extreme_logits_give_finite_results(certain: int, size: float) -> None:
    policy, logits = one_choice(4), torch.full((3, 4), -size)
    logits[:, certain] = size
    uniforms = torch.tensor([0.0, 0.5, ALMOST_ONE], dtype=torch.float64)
    assert policy.sample(logits, uniforms).tolist() == [certain] * 3
    assert policy.entropy(logits).tolist() == [0.0] * 3
    assert policy.log_prob(logits, torch.full((3,), certain)).tolist() == [0.0] * 3
    other = torch.full((3,), (certain + 1) % 4)
    torch.testing.assert_close(policy.log_prob(logits, other), torch.full((3,), -2 * size))
    assert policy.kl_divergence(logits, logits).tolist() == [0.0] * 3
    torch.testing.assert_close(policy.kl_divergence(logits, logits.roll(1, -1)), torch.full((3,), 2 * size))
