import numpy as np
import pytest
import torch

from agents.distributions import one_choice
from tests.agents.slow_versions import kl, probabilities


@pytest.mark.parametrize("rho_bar", [0.4, 1.0, 2.0])
def test_trusted_states_match_the_definition(rho_bar: float) -> None:
    rng = np.random.default_rng(0)
    target = rng.normal(0, 1.5, (30, 4, 5))
    behaviour = target + rng.normal(0, 1.0, (30, 4, 5))
    divergence = np.zeros((30, 4))
    for place in np.ndindex(30, 4):
        pi, mu = probabilities(target[place]), probabilities(behaviour[place])
        implied = np.minimum(rho_bar * mu, pi)
        divergence[place] = kl(pi, implied / implied.sum())
    for quantile in (0.2, 0.5, 0.9):
        threshold = float(np.quantile(divergence, quantile))  # between two of the 120 figures
        found = one_choice(5).implied_divergence(torch.from_numpy(target), torch.from_numpy(behaviour), rho_bar)
        trusted = found < threshold
        assert trusted.dtype == torch.bool
        np.testing.assert_array_equal(trusted, divergence < threshold)


def test_all_states_are_trusted_on_policy() -> None:
    logits = torch.randn(5, 4, 6, generator=torch.Generator().manual_seed(0)) * 3
    assert (one_choice(6).implied_divergence(logits, logits, 1.0) < 1e-5).all()


def test_an_action_that_the_acting_policy_never_took_makes_a_state_untrusted() -> None:
    target, behaviour = torch.zeros(1, 1, 2), torch.tensor([[[0.0, -1e4]]])
    assert not (one_choice(2).implied_divergence(target, behaviour, 1.0) < 0.5).any()
    # The other way round, V-trace estimates the target policy itself.
    assert (one_choice(2).implied_divergence(behaviour, target, 2.0) < 1e-5).all()


def test_trusted_states_have_no_gradient() -> None:
    logits = torch.randn(2, 2, 3, requires_grad=True)
    assert not one_choice(3).implied_divergence(logits, logits.detach() + 1, 1.0).requires_grad
