"""IMPACT's objective next to the slow version of the paper, and the learner's target network."""

import dataclasses
import math
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.distributions import Categorical, DiagonalGaussian, PolicyDistribution, one_choice
from agents.impact import RHO, Surrogate, impact_terms, surrogate
from agents.learner import Learner
from agents.losses import Corrected, Judged
from agents.network import NetworkOutput
from agents.vtrace import VTrace, vtrace
from option_flags import LossOptions
from replay.unroll_layout import UnrollLayout
from tests.agents.learners import (
    ALL_TERMS,
    DELAYED_LAYOUT,
    LAYOUT,
    LSTM_LAYOUT,
    inputs_of,
    make_batch,
    make_learner,
    reported,
    weights_of,
)
from tests.agents.slow_versions import (
    Array,
    Steps,
    entropy,
    gae_advantage,
    is_trusted,
    kl,
    probabilities,
    surrogate_objective,
)
from tests.agents.test_vtrace import random_steps

IMPACT = dataclasses.replace(ALL_TERMS, loss="impact", impact_epsilon=0.1, impact_target_period=3, use_kl_mask=False)
EVERYWHERE = torch.ones(4, 3, dtype=torch.bool)


def run(logs: Array, advantages: Array, rho: float, epsilon: float, mask: torch.Tensor = EVERYWHERE) -> Surrogate:
    """The surrogate of log-probabilities `[3, T, B]` by policy, target and acting policy."""
    policy, target, behaviour = torch.tensor(logs)
    return surrogate(policy, target, behaviour, torch.tensor(advantages), mask, rho, epsilon)


@settings(deadline=None)
@given(
    rho=st.sampled_from([1.0, 1.5, 2.0, 50.0]),
    epsilon=st.sampled_from([0.1, 0.3, 1.0]),
    seed=st.integers(0, 2**31),
)
def test_the_objective_of_each_state_is_that_of_the_paper(rho: float, epsilon: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logs, advantages = np.log(rng.uniform(0.05, 1, (3, 4, 3))), rng.normal(0, 1, (4, 3))
    mask = torch.tensor(rng.random((4, 3)) < 0.8)
    found = run(logs, advantages, rho, epsilon, mask)
    for place in np.ndindex(4, 3):
        pi, target, mu = (float(np.exp(log[place])) for log in logs)
        expected = surrogate_objective(pi, target, mu, float(advantages[place]), rho, epsilon) if mask[place] else 0.0
        assert found.objective[place].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert found.ratios[place].item() == pytest.approx(min(mu / target, rho) * pi / mu if mask[place] else 1.0)


def test_a_state_has_a_gradient_unless_it_is_clipped() -> None:
    rng = np.random.default_rng(0)
    logs, advantages = np.log(rng.uniform(0.05, 1, (3, 4, 3))), rng.normal(0, 1, (4, 3))
    policy = torch.tensor(logs[0], requires_grad=True)
    target, behaviour = torch.tensor(logs[1:])
    found = surrogate(policy, target, behaviour, torch.tensor(advantages), EVERYWHERE, 2.0, 0.3)
    torch.autograd.backward(found.objective.sum())
    assert policy.grad is not None
    assert torch.equal(policy.grad == 0, found.clipped)
    assert 0 < found.clipped.sum() < 12
    kept = ~found.clipped
    np.testing.assert_allclose(policy.grad[kept], (found.ratios * torch.tensor(advantages))[kept].detach())


def test_beside_the_acting_policy_the_surrogate_has_the_gradient_of_the_policy_gradient() -> None:
    """On policy, with the target at the present weights, IMPACT's first step is that of V-trace with λ = 1."""
    steps = random_steps(np.random.default_rng(0), 4, 3)
    steps = steps._replace(log_ratios=np.zeros((4, 3)))
    tensors = {name: torch.tensor(array) for name, array in steps._asdict().items()}
    trace = vtrace(**tensors, rho_bar=1.0, c_bar=1.0, trace_lambda=1.0, trusted=EVERYWHERE)
    policy = torch.full((4, 3), -1.5, dtype=torch.float64, requires_grad=True)
    fixed = policy.detach().clone()
    advantages = trace.targets - tensors["values"]
    torch.autograd.backward(surrogate(policy, fixed, fixed, advantages, EVERYWHERE, 2.0, 0.3).objective.sum())
    assert policy.grad is not None
    np.testing.assert_allclose(policy.grad, trace.advantages, rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(steps=st.integers(1, 6), trace_lambda=st.sampled_from([0.0, 0.7, 1.0]), seed=st.integers(0, 2**31))
def test_targets_less_values_are_the_generalised_advantages_of_the_paper(
    steps: int, trace_lambda: float, seed: int
) -> None:
    data = random_steps(np.random.default_rng(seed), steps, 2)
    tensors = {name: torch.tensor(array) for name, array in data._asdict().items()}
    trusted = torch.ones_like(tensors["rewards"], dtype=torch.bool)
    trace = vtrace(**tensors, rho_bar=1.2, c_bar=0.9, trace_lambda=trace_lambda, trusted=trusted)
    for s, b in np.ndindex(steps, 2):
        expected = gae_advantage(data, s, b, 1.2, 0.9, trace_lambda)
        assert float(trace.targets[s, b] - data.values[s, b]) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_nothing_outside_the_mask_counts(broken: float) -> None:
    mask = torch.ones(4, 3, dtype=torch.bool)
    mask[1, 2] = False
    rng = np.random.default_rng(0)
    logs, advantages = np.log(rng.uniform(0.05, 1, (3, 4, 3))), rng.normal(0, 1, (4, 3))
    gradients = []
    for value in (-1.0, broken):
        logs[1:, 1, 2], advantages[1, 2] = value, value
        policy = torch.tensor(logs[0], requires_grad=True)
        target, behaviour = torch.tensor(logs[1:])
        found = surrogate(policy, target, behaviour, torch.tensor(advantages), mask, 2.0, 0.3)
        assert not found.clipped[1, 2]
        torch.autograd.backward(found.objective.sum())
        assert policy.grad is not None
        gradients.append(policy.grad)
    assert torch.equal(gradients[0], gradients[1]) and torch.isfinite(gradients[1]).all()


def test_a_policy_that_has_collapsed_has_a_finite_gradient() -> None:
    policy = torch.full((1, 2), 500.0, requires_grad=True)
    mask = torch.ones(1, 2, dtype=torch.bool)
    zero = torch.zeros(1, 2)
    torch.autograd.backward(surrogate(policy, zero, zero, torch.tensor([[1.0, -1.0]]), mask, 2.0, 0.3).objective.sum())
    assert policy.grad is not None and torch.isfinite(policy.grad).all()


@pytest.mark.parametrize("wrong", [(4,), (4, 1), (5, 3)])
def test_wrong_shapes_are_refused(wrong: tuple[int, ...]) -> None:
    for place in range(1, 4):
        tensors = [torch.zeros(wrong if index == place else (4, 3)) for index in range(4)]
        policy, target, behaviour, advantages = tensors
        with pytest.raises(ValueError, match=r"must be \[T, B\]"):
            surrogate(policy, target, behaviour, advantages, EVERYWHERE, 2.0, 0.3)


def some_judged(
    policy: PolicyDistribution,
    logits: torch.Tensor,
    target: torch.Tensor,
    behaviour: torch.Tensor,
    actions: torch.Tensor,
    advantages: torch.Tensor,
) -> Judged:
    """What the policy loss reads of a batch."""
    unrolls: Any = SimpleNamespace(actions=actions, behaviour_logits=behaviour)
    values = torch.zeros(len(logits) + 1, logits.shape[1])
    output, reference = (
        NetworkOutput(values, torch.cat([each, each[:1]]), values, values) for each in (logits, target)
    )
    trace = VTrace(targets=advantages, advantages=advantages, ratios=advantages)
    log_reference, log_behaviour = policy.log_prob(target, actions), policy.log_prob(behaviour, actions)
    corrected = Corrected(unrolls, reference, log_reference, log_behaviour, advantages > 0, trace)
    return Judged(**vars(corrected), policy=policy, output=output, in_units=lambda values: values)


@pytest.mark.parametrize(
    ("distribution", "action_shape"),
    [(one_choice(4), ()), (Categorical((2, 3)), (2,)), (DiagonalGaussian(2), (2,))],
    ids=["discrete", "product", "gaussian"],
)
def test_the_loss_holds_for_every_distribution(distribution: PolicyDistribution, action_shape: tuple[int, ...]) -> None:
    """The sum of the objectives of the log-probabilities, and figures over the states under the mask."""
    generator = torch.Generator().manual_seed(0)
    logits, target, behaviour = torch.randn(3, 6, 5, distribution.parameter_count, generator=generator) / 3
    actions = distribution.sample(behaviour, torch.rand(6, 5, *action_shape, generator=generator))
    advantages, mask = torch.randn(6, 5, generator=generator), torch.rand(6, 5, generator=generator) < 0.8
    if actions.is_floating_point():
        actions[~mask] = math.nan
    logits.requires_grad_()
    judged = some_judged(distribution, logits, target, behaviour, actions, advantages)
    loss, figures = impact_terms(epsilon=0.2)["policy_loss"].sum(judged, mask), judged.figures
    torch.autograd.backward(loss)
    assert logits.grad is not None and torch.isfinite(logits.grad).all() and not logits.grad[~mask].any()
    total, ratios = 0.0, []
    with torch.no_grad():
        logs = [distribution.log_prob(each, actions) for each in (logits, target, behaviour)]
        divergence = distribution.kl_divergence(target, logits)[mask].mean().item()
    for t, b in mask.nonzero().tolist():
        pi, pi_target, mu = (math.exp(log[t, b]) for log in logs)
        total += surrogate_objective(pi, pi_target, mu, advantages[t, b].item(), RHO, 0.2)
        ratios.append(min(mu / pi_target, RHO) * pi / mu)
    assert loss.item() == pytest.approx(-total, rel=1e-4)
    assert figures["kl_target"].item() == pytest.approx(divergence, rel=1e-5)
    assert figures["ratio_target"].item() == pytest.approx(np.mean(ratios), rel=1e-4)
    assert 0 < figures["clipped_share"].item() < 1


def states_of(learner: Learner) -> dict[str, Any]:
    return deepcopy(learner.state_dict())


def test_the_target_is_the_network_at_each_whole_period() -> None:
    learner = make_learner(IMPACT)
    saved = {0: states_of(learner)["network"]}
    for update in range(1, 8):
        report = reported(learner, make_batch([True, False] * 2, seed=update))
        assert (report["kl_target"] == 0) == (update % 3 == 1), "the figure is that of the weights before the update"
        saved[update] = states_of(learner)["network"]
        target = learner.state_dict()["target"]
        assert target.keys() == saved[0].keys()
        assert all(torch.equal(weights, saved[update - update % 3][name]) for name, weights in target.items())


@pytest.mark.parametrize("use_kl_mask", [False, True])
@pytest.mark.parametrize("layout", [LAYOUT, LSTM_LAYOUT, DELAYED_LAYOUT], ids=["plain", "lstm", "delayed"])
def test_the_terms_of_the_loss_match_their_definitions(layout: UnrollLayout, use_kl_mask: bool) -> None:
    """After two updates, the target is two updates old."""
    fresh = [True, False, True, False, False]
    options = dataclasses.replace(IMPACT, use_kl_mask=use_kl_mask)
    learner = make_learner(options, layout=layout)
    first = make_learner(options, layout=layout)
    for seed in (1, 2):
        learner.update(make_batch(fresh, layout, seed))
    batch = make_batch(fresh, layout)
    with torch.no_grad():
        inputs = inputs_of(batch, layout)
        output, target = learner.network(inputs), first.network(inputs)
    logits, target_logits = output.logits[:-1].double().numpy(), target.logits[:-1].double().numpy()
    fields = layout.arrays(batch.rows.numpy())
    numbers = {name: array.astype(np.float64) for name, array in fields.items() if array.dtype != np.int64}
    expected = slow_terms(
        options, numbers, logits, target_logits, output.values.double().numpy(), target.values.double().numpy(), fresh
    )
    report = reported(learner, batch)
    assert {name: report[name] for name in expected} == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert report["kl_target"] > 0


def slow_terms(
    options: LossOptions,
    fields: dict[str, Array],
    logits: Array,
    target_logits: Array,
    values: Array,
    target_values: Array,
    fresh: list[bool],
) -> dict[str, float]:
    """The terms from `logits [T, B, A]` and `values [T+1, B]` of the network and of its target, state by state."""
    length, size = logits.shape[:2]
    delayed = "durations" in fields
    discounts = options.gamma ** (fields["durations"].T if delayed else np.ones((length, size)))
    rewards = np.nan_to_num(fields["rewards"]).T + discounts * np.nan_to_num(fields["bootstraps"]).T
    chosen = np.ones((length, size), bool)
    log_ratios, policies = np.zeros((length, size)), {}
    for t, b in np.ndindex(length, size):
        three = [probabilities(each) for each in (logits[t, b], target_logits[t, b], fields["behaviour_logits"][b, t])]
        action = int(fields["actions"][b, t])
        policies[t, b] = three, [float(p[action]) for p in three]
        log_ratios[t, b] = math.log(policies[t, b][1][1] / policies[t, b][1][2])
        stored = fields["behaviour_logits"][b, t]
        near = is_trusted(target_logits[t, b], stored, options.rho_const, options.kl_div_threshold)
        chosen[t, b] = (near or not options.use_kl_mask) and (not delayed or bool(fields["valid"][b, t]))
    ended = fields["ended" if delayed else "dones"].T
    # With a ratio of 0, a state that does not count has no error and ends the trace.
    log_ratios[~chosen] = -np.inf
    steps = Steps(log_ratios, discounts * (1 - ended), rewards, target_values[:-1], target_values[-1])
    sums = dict.fromkeys(
        ("policy_loss", "value_loss", "entropy_loss", "proximal_loss", "policy_cloning_loss", "value_cloning_loss"), 0.0
    )
    for t, b in np.ndindex(length, size):
        if not chosen[t, b]:
            continue
        (pi, target, mu), (p, p_target, p_mu) = policies[t, b]
        advantage = gae_advantage(steps, t, b, options.rho_const, options.c_const, options.trace_lambda)
        objective = surrogate_objective(p, p_target, p_mu, advantage, RHO, options.impact_epsilon)
        error = float(target_values[t, b]) + advantage - float(values[t, b])
        sums["policy_loss"] -= options.policy_gradient_loss_weight * objective
        sums["value_loss"] += options.value_loss_weight * 0.5 * error**2
        if fresh[b]:
            sums["entropy_loss"] -= options.entropy_loss_weight * entropy(pi)
            sums["proximal_loss"] += options.proximal_loss_weight * kl(target, pi)
        else:
            sums["policy_cloning_loss"] += options.policy_cloning_loss_weight * kl(mu, pi)
            cloned = float(values[t, b]) - float(fields["values"][b, t])
            sums["value_cloning_loss"] += options.value_cloning_loss_weight * cloned**2
    return {name: value / (length * size) for name, value in sums.items()}


def test_a_resumed_learner_goes_on_with_its_target() -> None:
    """The target differs from the network when the state is saved."""
    learner, resumed = make_learner(IMPACT), make_learner(IMPACT)
    for seed in range(4):
        learner.update(make_batch([True] * 3, seed=seed))
    resumed.load_state_dict(states_of(learner))
    for seed in range(4, 9):
        reports = [reported(each, make_batch([True] * 3, seed=seed)) for each in (learner, resumed)]
        assert reports[0] == pytest.approx(reports[1], rel=0, abs=0, nan_ok=True)
    for weight, other in zip(weights_of(learner), weights_of(resumed), strict=True):
        np.testing.assert_array_equal(weight, other)


def test_with_another_loss_before_the_target_begins_as_the_network() -> None:
    before = make_learner(ALL_TERMS)
    before.update(make_batch([True, False]))
    assert "target" not in before.state_dict()
    learner = make_learner(IMPACT)
    learner.load_state_dict(states_of(before))
    state = learner.state_dict()
    assert all(torch.equal(weights, state["network"][name]) for name, weights in state["target"].items())
    before.load_state_dict(state)  # the target is left out
    assert "target" not in before.state_dict()


@pytest.mark.slow
def test_repeated_updates_make_an_action_of_positive_advantage_no_more_likely_than_the_clip_allows() -> None:
    """One batch over and over: the mean ratio to a fixed target stops near 1 + ε, where V-trace's goes on."""
    options = LossOptions(
        loss="impact", impact_epsilon=0.2, impact_target_period=10**6, entropy_loss_weight=0, proximal_loss_weight=0
    )
    batch = make_batch([True] * 4)
    fields = LAYOUT.arrays(batch.rows.numpy())
    fields["rewards"][:], fields["dones"][:], fields["bootstraps"][:] = 1, 1, 0
    learner, unclipped = make_learner(options), make_learner(dataclasses.replace(options, impact_epsilon=1.0))
    for _ in range(60):
        ratios = [reported(each, batch)["ratio_target"] for each in (learner, unclipped)]
    assert 1.0 < ratios[0] < 1.5
    assert ratios[1] > ratios[0] + 0.1
