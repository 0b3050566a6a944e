from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch

from agents import losses
from agents.distributions import one_choice
from options.learning_options import LOSS_TERMS
from tests.agents import slow_versions
from tests.agents.slow_versions import Array, kl, probabilities

T, B, A = 5, 3, 4
POLICY = one_choice(A)


class Given(NamedTuple):
    logits: torch.Tensor
    behaviour_logits: torch.Tensor
    values: torch.Tensor
    targets: torch.Tensor
    advantages: torch.Tensor
    actions: torch.Tensor
    mask: torch.Tensor


def given_states(seed: int = 0) -> Given:
    """Random states; every float input requires a gradient, and about half of the states are in the mask."""
    rng = np.random.default_rng(seed)

    def learned(*shape: int) -> torch.Tensor:
        return torch.tensor(rng.normal(0, 2, shape), requires_grad=True)

    return Given(
        logits=learned(T, B, A),
        behaviour_logits=learned(T, B, A),
        values=learned(T, B),
        targets=learned(T, B),
        advantages=learned(T, B),
        actions=torch.tensor(rng.integers(0, A, (T, B)), dtype=torch.int32),
        mask=torch.tensor(rng.random((T, B)) < 0.5),
    )


def slow_policy_gradient(given: Given, place: tuple[int, ...]) -> float:
    pi = probabilities(given.logits[place].detach().numpy())
    return -float(given.advantages[place].item()) * float(np.log(pi[int(given.actions[place].item())]))


def slow_value(given: Given, place: tuple[int, ...]) -> float:
    return 0.5 * float((given.targets[place] - given.values[place]).item()) ** 2


def slow_entropy(given: Given, place: tuple[int, ...]) -> float:
    return -slow_versions.entropy(probabilities(given.logits[place].detach().numpy()))


def slow_policy_cloning(given: Given, place: tuple[int, ...]) -> float:
    mu = probabilities(given.behaviour_logits[place].detach().numpy())
    return kl(mu, probabilities(given.logits[place].detach().numpy()))


def slow_value_cloning(given: Given, place: tuple[int, ...]) -> float:
    return float((given.values[place] - given.targets[place]).item()) ** 2


Loss = Callable[[Given], torch.Tensor]
SlowLoss = Callable[[Given, tuple[int, ...]], float]

LOSSES: dict[str, tuple[Loss, SlowLoss, str]] = {  # loss, slow version, and the only input that gets a gradient
    "policy_gradient": (
        lambda g: losses.policy_gradient_loss(POLICY, g.logits, g.actions, g.advantages, g.mask),
        slow_policy_gradient,
        "logits",
    ),
    "value": (lambda g: losses.value_loss(g.values, g.targets, g.mask), slow_value, "values"),
    "entropy": (lambda g: losses.entropy_loss(POLICY, g.logits, g.mask), slow_entropy, "logits"),
    "policy_cloning": (
        lambda g: losses.policy_cloning_loss(POLICY, g.logits, g.behaviour_logits, g.mask),
        slow_policy_cloning,
        "logits",
    ),
    "value_cloning": (lambda g: losses.value_cloning_loss(g.values, g.targets, g.mask), slow_value_cloning, "values"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_the_sum_over_the_states_of_the_mask(name: str) -> None:
    loss, slow, _ = LOSSES[name]
    for seed in range(3):
        given = given_states(seed)
        expected = sum(slow(given, place) for place in np.ndindex(T, B) if given.mask[place])
        assert loss(given).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_an_empty_mask_gives_a_loss_of_zero(name: str) -> None:
    assert LOSSES[name][0](given_states()._replace(mask=torch.zeros(T, B, dtype=torch.bool))).item() == 0


@pytest.mark.parametrize("name", LOSSES)
def test_only_the_learned_input_gets_a_gradient_and_only_under_the_mask(name: str) -> None:
    loss, _, learned = LOSSES[name]
    given = given_states()
    loss(given).backward()  # type: ignore[no-untyped-call]
    for field, tensor in given._asdict().items():
        assert (tensor.grad is not None) == (field == learned)
    gradient = getattr(given, learned).grad.reshape(T, B, -1)
    assert (gradient[given.mask] != 0).any(-1).all()
    assert (gradient[~given.mask] == 0).all()


def finite_differences(f: Callable[[Array], float], x: Array) -> Array:
    gradient, step = np.zeros_like(x), 1e-6
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        gradient[place] = (f(up) - f(down)) / (2 * step)
    return gradient


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_match_finite_differences_of_the_slow_versions(name: str) -> None:
    loss, slow, learned = LOSSES[name]
    given = given_states(1)
    loss(given).backward()  # type: ignore[no-untyped-call]

    def at(x: Array) -> float:
        moved = given._replace(**{learned: torch.tensor(x)})
        return sum(slow(moved, place) for place in np.ndindex(T, B) if given.mask[place])

    tensor: torch.Tensor = getattr(given, learned)
    assert tensor.grad is not None
    np.testing.assert_allclose(tensor.grad, finite_differences(at, tensor.detach().numpy()), rtol=1e-5, atol=1e-7)


def test_the_policy_gradient_matches_its_definition() -> None:
    given = given_states(2)
    LOSSES["policy_gradient"][0](given).backward()  # type: ignore[no-untyped-call]
    assert given.logits.grad is not None
    for place in np.ndindex(T, B):
        action = int(given.actions[place])
        gradient = finite_differences(
            lambda x, action=action: float(np.log(probabilities(x)[action])),  # type: ignore[misc]
            given.logits[place].detach().numpy(),
        )
        weight = given.mask[place].item() * given.advantages[place].item()
        np.testing.assert_allclose(given.logits.grad[place], -weight * gradient, rtol=1e-5, atol=1e-7)


def test_policy_cloning_penalises_actions_that_the_new_policy_dropped() -> None:
    """KL(μ ‖ π) is large if π never takes an action of μ, and small if π takes more actions than μ."""
    narrow, wide = torch.tensor([[[0.0, -30.0]]]), torch.zeros(1, 1, 2)
    mask = torch.ones(1, 1, dtype=torch.bool)
    assert losses.policy_cloning_loss(one_choice(2), narrow, wide, mask).item() == pytest.approx(
        15 - np.log(2), rel=1e-5
    )
    assert losses.policy_cloning_loss(one_choice(2), wide, narrow, mask).item() == pytest.approx(np.log(2), rel=1e-5)


def test_every_declared_term_has_a_function_and_every_function_a_weight() -> None:
    assert list(losses.TERMS) == list(LOSS_TERMS)
