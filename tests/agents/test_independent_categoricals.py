import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.distributions import Categorical, one_choice
from tests.agents.slow_versions import probabilities

ALMOST_ONE = float(np.nextafter(1.0, 0.0))
SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


def factors(logits: torch.Tensor, sizes: tuple[int, ...]) -> list[torch.Tensor]:
    return list(torch.split(logits, list(sizes), -1))


def random_logits(sizes: tuple[int, ...], seed: int, *shape: int, spread: float = 2.0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(0, spread, (*shape, sum(sizes))))


@settings(deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 2**31))
def test_it_is_the_product_of_its_factors(sizes: tuple[int, ...], seed: int) -> None:
    policy = Categorical(sizes)
    p, q = random_logits(sizes, seed, 3, 2), random_logits(sizes, seed + 1, 3, 2)
    rng = np.random.default_rng(seed)
    actions = torch.from_numpy(np.stack([rng.integers(0, size, (3, 2)) for size in sizes], -1))
    log_prob, entropy, divergence = torch.zeros(3, 2), torch.zeros(3, 2), torch.zeros(3, 2)
    for k, (one, other) in enumerate(zip(factors(p, sizes), factors(q, sizes), strict=True)):
        mine, theirs = torch.distributions.Categorical(logits=one), torch.distributions.Categorical(logits=other)
        log_prob = log_prob + mine.log_prob(actions[..., k])  # type: ignore[no-untyped-call]
        entropy = entropy + mine.entropy()  # type: ignore[no-untyped-call]
        divergence = divergence + torch.distributions.kl_divergence(mine, theirs)
    torch.testing.assert_close(policy.log_prob(p, actions.int()), log_prob, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(policy.entropy(p), entropy, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(policy.kl_divergence(p, q), divergence, rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 2**31))
def test_each_factor_is_sampled_by_its_own_uniform_number(sizes: tuple[int, ...], seed: int) -> None:
    policy, rng = Categorical(sizes), np.random.default_rng(seed)
    logits, uniforms = random_logits(sizes, seed, 5), torch.from_numpy(rng.random((5, len(sizes))))
    drawn, best = policy.sample(logits, uniforms), policy.most_likely(logits)
    assert drawn.dtype == best.dtype == torch.int64
    assert drawn.shape == best.shape == (5, len(sizes))
    for k, factor in enumerate(factors(logits, sizes)):
        assert torch.equal(drawn[:, k], one_choice(sizes[k]).sample(factor, uniforms[:, k]))
        assert torch.equal(best[:, k], factor.argmax(-1))


@pytest.mark.parametrize("sizes", [(2, 2), (3, 1, 5), (1,), (4,)])
def test_the_extreme_uniform_numbers_give_valid_choices(sizes: tuple[int, ...]) -> None:
    policy, logits = Categorical(sizes), random_logits(sizes, 0, 4000, spread=3).float()
    for number, expected in ((0.0, [0] * len(sizes)), (ALMOST_ONE, [size - 1 for size in sizes])):
        drawn = policy.sample(logits, torch.full((4000, len(sizes)), number, dtype=torch.float64))
        assert drawn.min(0).values.tolist() == drawn.max(0).values.tolist() == expected


def test_combinations_are_as_frequent_as_their_probabilities() -> None:
    sizes, draws = (2, 3), 30_000
    policy, logits = Categorical(sizes), torch.tensor([0.5, -0.5, 1.0, 0.0, -1.0])
    uniforms = torch.rand(draws, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    drawn = policy.sample(logits.expand(draws, 5), uniforms)
    counts = (drawn[:, 0] * 3 + drawn[:, 1]).bincount(minlength=6).numpy()
    first, second = probabilities(logits[:2].double().numpy()), probabilities(logits[2:].double().numpy())
    expected = draws * np.outer(first, second).ravel()
    # 5 degrees of freedom: the sum of fair draws is above 40 less than once in a million.
    assert ((counts - expected) ** 2 / expected).sum() < 40


@pytest.mark.parametrize("size", [1e4, 1e30])
def test_extreme_logits_give_finite_results_and_gradients(size: float) -> None:
    policy = Categorical((2, 3))
    logits = torch.tensor([[size, -size, -size, size, -size]], requires_grad=True)
    certain = torch.tensor([[0, 1]])
    assert policy.log_prob(logits, certain).tolist() == [0.0]
    assert policy.entropy(logits).tolist() == [0.0]
    assert policy.kl_divergence(logits, logits).tolist() == [0.0]
    assert policy.sample(logits, torch.full((1, 2), 0.5)).tolist() == [[0, 1]]
    (policy.log_prob(logits, certain) + policy.entropy(logits) + policy.kl_divergence(logits, logits)).sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None and torch.isfinite(logits.grad).all()


@settings(deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 2**31))
def test_the_encoding_is_the_one_hot_vectors_one_after_another(sizes: tuple[int, ...], seed: int) -> None:
    policy, rng = Categorical(sizes), np.random.default_rng(seed)
    actions = [int(rng.integers(-1, size)) for size in sizes]
    expected = list(itertools.chain(*([float(i == a) for i in range(n)] for n, a in zip(sizes, actions, strict=True))))
    encoded = policy.encode(torch.tensor([[actions]], dtype=torch.int32))
    assert encoded.dtype == torch.float32 and encoded.shape == (1, 1, policy.encoded_size)
    assert encoded[0, 0].tolist() == expected


def test_the_encoding_is_all_zeros_before_the_first_action() -> None:
    assert not Categorical((2, 3)).encode(torch.full((4, 2), -1, dtype=torch.int32)).any()


def test_bars_are_probabilities_and_the_spread_is_their_deviation_between_states() -> None:
    policy, logits = Categorical((2, 3)), random_logits((2, 3), 0, 7, 4)
    bars = policy.as_bars(logits)
    for place in np.ndindex(7, 4):
        expected = [*probabilities(logits[place][:2].numpy()), *probabilities(logits[place][2:].numpy())]
        np.testing.assert_allclose(bars[place], expected)
    assert policy.spread(logits).item() == pytest.approx(bars.numpy().reshape(28, 5).std(0).mean())
    assert policy.spread(logits[:1, :1].expand(7, 4, 5)).item() == pytest.approx(0)
