"""The inputs of the network, the terms of the loss and the diagnostics, next to slow versions."""

import dataclasses
import math
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from agents.network import NetworkInput
from option_flags import LossOptions, OptimizerOptions
from options.learning_options import LOSS_TERMS
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout
from tests.agents.learners import (
    ALL_TERMS,
    DELAYED_LAYOUT,
    LAYOUT,
    LSTM_LAYOUT,
    gradients,
    inputs_of,
    length_of,
    make_batch,
    make_learner,
    reported,
    weights_of,
)
from tests.agents.slow_versions import (
    Array,
    Steps,
    entropy,
    is_trusted,
    kl,
    probabilities,
    vtrace_advantages,
    vtrace_targets,
)

NO_LOSS = LossOptions(
    policy_gradient_loss_weight=0,
    value_loss_weight=0,
    entropy_loss_weight=0,
    proximal_loss_weight=0,
    use_policy_cloning_loss=False,
    use_value_cloning_loss=False,
)


def slow_input(layout: UnrollLayout, batch: Batch) -> NetworkInput:
    """The inputs, state by state, as an environment with a frame stack returns them."""
    fields = layout.arrays(batch.rows.numpy())
    size, states, stack = len(batch.fresh), layout.unroll_length + 1, layout.frame_stack
    seen = np.zeros((states, size, stack, *layout.frame_shape), np.uint8)
    actions, rewards = np.zeros((states, size), np.int32), np.zeros((states, size), np.float32)
    starts = np.zeros((states, size), bool)
    for b in range(size):
        frames = list(fields["frames"][b, :stack])
        actions[0, b], rewards[0, b] = fields["first_action"][b], fields["first_reward"][b]
        seen[0, b] = frames
        for t in range(layout.unroll_length):
            newest = fields["frames"][b, stack + t]
            starts[t + 1, b] = fields["dones"][b, t]
            frames = [newest] * stack if starts[t + 1, b] else [*frames[1:], newest]
            actions[t + 1, b] = -1 if starts[t + 1, b] else fields["actions"][b, t]
            seen_rewards = fields["seen_rewards" if layout.delayed_actions else "rewards"]
            rewards[t + 1, b] = 0 if starts[t + 1, b] else seen_rewards[b, t]
            seen[t + 1, b] = frames
    return NetworkInput(
        observations=torch.from_numpy(seen).flatten(2, 3),
        previous_actions=torch.from_numpy(actions),
        previous_rewards=torch.from_numpy(rewards),
        starts=torch.from_numpy(starts),
        lstm_state=torch.from_numpy(fields["first_lstm_state"].copy()),
    )


def slow_terms(options: LossOptions, fields: dict[str, Array], logits: Array, values: Array, fresh: Any) -> Array:
    """The terms of the loss in the order of LOSS_TERMS, from `logits [T, B, A]` and `values [T+1, B]`."""
    steps, size = logits.shape[:2]
    chosen = trusted_by_definition(options, fields, logits)
    log_ratios, policies = np.zeros((steps, size)), {}
    for t, b in np.ndindex(steps, size):
        pi, mu = probabilities(logits[t, b]), probabilities(fields["behaviour_logits"][b, t])
        action = int(fields["actions"][b, t])
        policies[t, b] = pi, mu, float(np.log(pi[action]))
        log_ratios[t, b] = np.log(pi[action] / mu[action])
    delayed = "durations" in fields
    discounts = options.gamma ** (fields["durations"].T if delayed else np.ones((steps, size)))
    rewards = np.nan_to_num(fields["rewards"]).T + discounts * np.nan_to_num(fields["bootstraps"]).T
    data = Steps(
        log_ratios=log_ratios,
        discounts=discounts * (1.0 - fields["ended" if delayed else "dones"].T),
        rewards=rewards,
        values=values[:-1],
        bootstrap_value=values[-1],
    )
    targets = vtrace_targets(data, options.rho_const, options.c_const, options.trace_lambda, chosen)
    advantages = vtrace_advantages(data, targets, options.rho_const, chosen)
    sums = np.zeros(len(LOSS_TERMS))
    for t, b in np.ndindex(steps, size):
        pi, mu, log_probability = policies[t, b]
        if not chosen[t, b]:
            continue
        sums[0] -= options.policy_gradient_loss_weight * advantages[t, b] * log_probability
        sums[1] += options.value_loss_weight * 0.5 * (targets[t, b] - values[t, b]) ** 2
        if fresh[b] or not any(fresh):
            sums[2] -= options.entropy_loss_weight * entropy(pi)
        if fresh[b]:
            sums[3] += options.proximal_loss_weight * kl(mu, pi)
        if not fresh[b] and options.use_policy_cloning_loss:
            sums[4] += options.policy_cloning_loss_weight * kl(mu, pi)
        if not fresh[b] and options.use_value_cloning_loss:
            sums[5] += options.value_cloning_loss_weight * (values[t, b] - fields["values"][b, t]) ** 2
    return sums / (steps * size) if options.loss_reduction == "mean" else sums


def trusted_by_definition(options: LossOptions, fields: dict[str, Array], logits: Array) -> NDArray[np.bool_]:
    trusted = np.ones(logits.shape[:2], bool)
    for t, b in np.ndindex(*trusted.shape):
        stored = fields["behaviour_logits"][b, t]
        trusted[t, b] = is_trusted(logits[t, b], stored, options.rho_const, options.kl_div_threshold)
    trusted |= not options.use_kl_mask
    return trusted & fields["valid"].astype(bool).T if "valid" in fields else trusted


@pytest.mark.parametrize("layout", [LAYOUT, LSTM_LAYOUT, DELAYED_LAYOUT], ids=["no_lstm", "lstm", "delayed"])
def test_the_network_inputs_are_the_observations_of_the_environment(layout: UnrollLayout) -> None:
    batch = make_batch([True] * 8, layout)
    inputs = inputs_of(batch, layout)
    expected = slow_input(layout, batch)
    for name, tensor in expected._asdict().items():
        found = getattr(inputs, name)
        assert (found is tensor is None) or torch.equal(found, tensor), name
    assert 0 < expected.starts[1:].float().mean() < 1


@pytest.mark.parametrize(
    "fresh",
    [[True, False, True, False, False], [True] * 5, [False] * 5],
    ids=["mixed", "all_fresh", "all_replayed"],
)
@pytest.mark.parametrize(
    "options",
    [
        ALL_TERMS,
        dataclasses.replace(ALL_TERMS, loss_reduction="sum", use_kl_mask=False),
        dataclasses.replace(ALL_TERMS, use_policy_cloning_loss=False),
        dataclasses.replace(ALL_TERMS, use_value_cloning_loss=False),
        LossOptions(),
    ],
    ids=["all_terms", "sum_without_mask", "no_policy_cloning", "no_value_cloning", "defaults"],
)
@pytest.mark.parametrize("layout", [LSTM_LAYOUT, DELAYED_LAYOUT], ids=["turns", "delayed"])
def test_the_reported_terms_match_their_definitions(
    options: LossOptions, fresh: list[bool], layout: UnrollLayout
) -> None:
    batch = make_batch(fresh, layout)
    learner = make_learner(options, layout=layout)
    with torch.no_grad():
        output = learner.network(slow_input(layout, batch))
    fields = layout.arrays(batch.rows.numpy())
    numbers = {name: array.astype(np.float64) for name, array in fields.items() if array.dtype != np.int64}
    logits, values = output.logits[:-1].double().numpy(), output.values.double().numpy()
    expected = slow_terms(options, numbers, logits, values, fresh)
    report = reported(learner, batch)
    np.testing.assert_allclose([report[name] for name in LOSS_TERMS], expected, rtol=1e-4, atol=1e-6)
    assert report["total_loss"] == pytest.approx(expected.sum(), rel=1e-4, abs=1e-6)
    trusted = trusted_by_definition(options, numbers, logits)
    for name, kind in (("dropped_fresh", np.array(fresh)), ("dropped_replayed", ~np.array(fresh))):
        share = (~trusted[:, kind]).mean() if kind.any() else math.nan
        assert report[name] == pytest.approx(share, nan_ok=True)
    assert (0 < (~trusted).mean() < 1) == (options.use_kl_mask or layout.delayed_actions)


def test_diagnostics_are_separate_for_fresh_and_replayed_samples() -> None:
    fresh = [True, False, False, True]
    batch, learner = make_batch(fresh), make_learner()
    with torch.no_grad():
        output = learner.network(slow_input(LAYOUT, batch))
    logits, fields = output.logits[:-1].double().numpy(), LAYOUT.arrays(batch.rows.numpy())
    entropies, divergences, ratios = (np.zeros((5, 4)) for _ in range(3))
    policies = np.zeros((5, 4, 4))
    for t, b in np.ndindex(5, 4):
        pi = policies[t, b] = probabilities(logits[t, b])
        mu = probabilities(fields["behaviour_logits"][b, t].astype(np.float64))
        action = fields["actions"][b, t]
        entropies[t, b], divergences[t, b], ratios[t, b] = entropy(pi), kl(mu, pi), pi[action] / mu[action]
    old = ~np.array(fresh)
    report = reported(learner, batch)
    expected = {
        "entropy": entropies.mean(),
        "policy_spread": policies.reshape(20, 4).std(axis=0, ddof=0).mean(),
        "value_mean": output.values[:-1].mean().item(),
        "dropped_fresh": 0.0,
        "dropped_replayed": 0.0,
        "kl_fresh": divergences[:, fresh].mean(),
        "kl_replayed": divergences[:, old].mean(),
        "ratio_fresh": ratios[:, fresh].mean(),
        "ratio_replayed": ratios[:, old].mean(),
    }
    assert {name: report[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert math.isnan(reported(learner, make_batch([True] * 4))["kl_replayed"])
    assert math.isnan(reported(learner, make_batch([False] * 4))["ratio_fresh"])


def test_a_sum_is_a_mean_times_the_number_of_states() -> None:
    batch = make_batch([True, False, True])
    mean = reported(make_learner(ALL_TERMS), batch)
    total = reported(make_learner(dataclasses.replace(ALL_TERMS, loss_reduction="sum")), batch)
    for name in (*LOSS_TERMS, "total_loss", "gradient_norm"):
        assert total[name] == pytest.approx(5 * 3 * mean[name], rel=1e-4)
        assert mean[name] != 0


def test_entropy_and_cloning_losses_have_a_gradient_in_their_samples_only() -> None:
    """With one term only, a mixed batch has half the gradient of its fresh, or of its replayed half."""
    entropy_only = dataclasses.replace(NO_LOSS, entropy_loss_weight=1.0)
    proximal_only = dataclasses.replace(NO_LOSS, proximal_loss_weight=1.0)
    cloning_only = dataclasses.replace(NO_LOSS, use_policy_cloning_loss=True, policy_cloning_loss_weight=1.0)
    value_cloning_only = dataclasses.replace(NO_LOSS, use_value_cloning_loss=True, value_cloning_loss_weight=1.0)
    both = make_batch([True, True, False, False])
    first, second = Batch(both.rows[:2], both.fresh[:2]), Batch(both.rows[2:], both.fresh[2:])
    belongs = ((entropy_only, first), (proximal_only, first), (cloning_only, second), (value_cloning_only, second))
    for options, part in belongs:
        mixed, alone = (make_learner(options, OptimizerOptions(gradient_clip_by_norm_threshold=0)) for _ in range(2))
        mixed.update(both)
        alone.update(part)
        expected = gradients(alone)
        for name, gradient in gradients(mixed).items():
            torch.testing.assert_close(2 * gradient, expected[name], rtol=1e-4, atol=1e-6)
        assert length_of(expected) > 1e-3


NOTHING_TRUSTED = dataclasses.replace(ALL_TERMS, rho_const=1.0, c_const=1.0, kl_div_threshold=1e-9)


@pytest.mark.parametrize("fresh", [[True, False, True, False], [True] * 4, [False] * 4], ids=str)
def test_a_batch_of_untrusted_states_changes_no_weight(fresh: list[bool]) -> None:
    learner = make_learner(NOTHING_TRUSTED)
    before = weights_of(learner)
    report = reported(learner, make_batch(fresh))
    assert report["dropped_fresh" if any(fresh) else "dropped_replayed"] == 1
    assert report["total_loss"] == report["gradient_norm"] == 0
    for weight, old in zip(weights_of(learner), before, strict=True):
        np.testing.assert_array_equal(weight, old)


def test_after_untrusted_states_only_the_momentum_of_earlier_updates_moves_the_weights() -> None:
    """Two learners go on from the same update: one with untrusted states, the other one with a loss of 0."""
    options = OptimizerOptions(optimizer="adam")
    first = make_learner(ALL_TERMS, options)
    first.update(make_batch([True, False] * 2))
    weights = []
    for loss in (NOTHING_TRUSTED, NO_LOSS):
        learner = make_learner(loss, options)
        learner.load_state_dict(deepcopy(first.state_dict()))
        learner.update(make_batch([True, False] * 2, seed=1))
        weights.append(weights_of(learner))
    assert any((weight != old).any() for weight, old in zip(weights[0], weights_of(first), strict=True))
    for weight, same in zip(*weights, strict=True):
        np.testing.assert_array_equal(weight, same)


@pytest.mark.parametrize("field", ["behaviour_logits", "rewards", "bootstraps", "values"])
def test_numbers_that_are_not_finite_have_no_effect_at_an_untrusted_state(field: str) -> None:
    """An unroll of another policy, of which every state is untrusted, beside two unrolls that are trusted."""

    def after_update(broken: float | None) -> tuple[float, list[Array]]:
        batch = make_batch([True, False, False])
        fields = LAYOUT.arrays(batch.rows.numpy())
        fields["behaviour_logits"][:] = 0
        fields["behaviour_logits"][2, :, 0] = 50
        if broken is not None:
            fields[field][2] = broken
        learner = make_learner(dataclasses.replace(ALL_TERMS, kl_div_threshold=0.5))
        report = reported(learner, batch)
        assert (report["dropped_fresh"], report["dropped_replayed"]) == (0, 0.5)
        return report["total_loss"], weights_of(learner)

    loss, weights = after_update(None)
    for broken in (math.nan, math.inf):
        other_loss, other_weights = after_update(broken)
        assert other_loss == loss
        for weight, other in zip(weights, other_weights, strict=True):
            np.testing.assert_array_equal(weight, other)


def test_a_time_limit_adds_the_value_of_the_final_state_to_the_reward() -> None:
    cut_off, rewarded = make_batch([True] * 4), make_batch([True] * 4)
    fields = LAYOUT.arrays(rewarded.rows.numpy())
    assert fields["bootstraps"].any()
    fields["rewards"] += np.float32(LossOptions().gamma) * fields["bootstraps"]
    without = LAYOUT.arrays(make_batch([True] * 4).rows.numpy())
    report = reported(make_learner(), cut_off)
    fields["bootstraps"][:] = 0
    assert reported(make_learner(), rewarded) == pytest.approx(report, rel=1e-5, nan_ok=True)
    fields["rewards"][:] = without["rewards"]
    assert reported(make_learner(), rewarded)["value_loss"] != pytest.approx(report["value_loss"], rel=1e-2)


def test_states_after_the_end_of_an_episode_have_no_effect() -> None:
    """Each unroll ends with the end of an episode, so the last state is not used."""
    batch, other = make_batch([True] * 3), make_batch([True] * 3)
    for each in (batch, other):
        LAYOUT.arrays(each.rows.numpy())["dones"][:, -1] = 1
    LAYOUT.arrays(other.rows.numpy())["frames"][:, -1] = 7
    assert reported(make_learner(), other) == pytest.approx(reported(make_learner(), batch), rel=1e-6, nan_ok=True)
