import copy
import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from agents.acting import Actor, ActorState
from agents.flat_weights import flat_weights, load_flat_weights, weight_count
from agents.learner import Learner
from agents.network import ActorCritic, NetworkInput, make_network
from agents.training_batch import make_training_batch
from option_flags import LossOptions, NetworkOptions, OptimizerOptions
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout
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

LAYOUT = UnrollLayout(unroll_length=5, frame_stack=2, frame_shape=(1, 20, 20), action_count=4)
LSTM_LAYOUT = dataclasses.replace(LAYOUT, lstm_size=6)
TERMS = (
    "policy_loss",
    "value_loss",
    "entropy_loss",
    "proximal_loss",
    "policy_cloning_loss",
    "value_cloning_loss",
)
ALL_TERMS = LossOptions(
    gamma=0.9,
    rho_const=1.5,
    c_const=0.8,
    trace_lambda=0.9,
    policy_gradient_loss_weight=0.7,
    value_loss_weight=0.3,
    entropy_loss_weight=0.2,
    proximal_loss_weight=0.5,
    use_policy_cloning_loss=True,
    policy_cloning_loss_weight=0.4,
    use_value_cloning_loss=True,
    value_cloning_loss_weight=0.6,
    use_kl_mask=True,
    kl_div_threshold=0.15,
)


def make_batch(fresh: list[bool], layout: UnrollLayout = LAYOUT, seed: int = 0) -> Batch:
    """Random unrolls with episode ends in them; one end in two is a time limit, with a bootstrap."""
    rng = np.random.default_rng(seed)
    size, steps = len(fresh), layout.unroll_length
    rows = np.zeros((size, layout.nbytes), np.uint8)
    fields = layout.arrays(rows)
    fields["frames"][:] = rng.integers(0, 256, fields["frames"].shape)
    fields["actions"][:] = rng.integers(0, layout.action_count, (size, steps))
    fields["rewards"][:] = rng.normal(0, 1, (size, steps))
    fields["dones"][:] = rng.random((size, steps)) < 0.3
    fields["bootstraps"][:] = fields["dones"] * (rng.random((size, steps)) < 0.5) * rng.normal(0, 3, (size, steps))
    fields["behaviour_logits"][:] = rng.normal(0, 1, fields["behaviour_logits"].shape)
    fields["values"][:] = rng.normal(0, 1, (size, steps))
    fields["first_lstm_state"][:] = rng.normal(0, 1, fields["first_lstm_state"].shape)
    fields["first_action"][:] = rng.integers(-1, layout.action_count, size)
    fields["first_reward"][:] = rng.normal(0, 1, size)
    return Batch(torch.from_numpy(rows), np.array(fresh))


def make_learner(
    loss: LossOptions | None = None,
    optimizer: OptimizerOptions | None = None,
    layout: UnrollLayout = LAYOUT,
    schedule_updates: int = 100,
    warmup: int = 0,
) -> Learner:
    torch.manual_seed(0)
    network = make_network(NetworkOptions(network="impala_shallow"), layout, torch.float32)
    torch.nn.init.normal_(network.policy_head.weight, std=0.2)  # a policy that depends on the state
    torch.nn.init.normal_(network.policy_head.bias, std=0.2)
    optimizer = dataclasses.replace(optimizer or OptimizerOptions(), lr_warmup_updates=warmup)
    return Learner(network, layout, loss or LossOptions(), optimizer, schedule_updates, torch.device("cpu"))


def inputs_of(batch: Batch, layout: UnrollLayout = LAYOUT) -> NetworkInput:
    return make_training_batch(batch, layout, 0.99, torch.device("cpu")).inputs


def reported(learner: Learner, batch: Batch) -> dict[str, float]:
    return {name: float(value) for name, value in learner.update(batch).items()}


def gradients(learner: Learner) -> dict[str, torch.Tensor]:
    found = {name: parameter.grad for name, parameter in learner.network.named_parameters()}
    return {name: gradient.clone() for name, gradient in found.items() if gradient is not None}


def length_of(tensors: dict[str, torch.Tensor]) -> float:
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors.values()))


# --- Inputs of the network, and the terms of the loss ---------------------------------------------------------------


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
            rewards[t + 1, b] = 0 if starts[t + 1, b] else fields["rewards"][b, t]
            seen[t + 1, b] = frames
    return NetworkInput(
        observations=torch.from_numpy(seen).flatten(2, 3),
        previous_actions=torch.from_numpy(actions),
        previous_rewards=torch.from_numpy(rewards),
        starts=torch.from_numpy(starts),
        lstm_state=torch.from_numpy(fields["first_lstm_state"].copy()),
    )


def slow_terms(options: LossOptions, fields: dict[str, Array], logits: Array, values: Array, fresh: Any) -> Array:
    """The terms of the loss in the order of TERMS, from `logits [T, B, A]` and `values [T+1, B]`."""
    steps, size = logits.shape[:2]
    chosen = trusted_by_definition(options, fields, logits)
    log_ratios, policies = np.zeros((steps, size)), {}
    for t, b in np.ndindex(steps, size):
        pi, mu = probabilities(logits[t, b]), probabilities(fields["behaviour_logits"][b, t])
        action = int(fields["actions"][b, t])
        policies[t, b] = pi, mu, float(np.log(pi[action]))
        log_ratios[t, b] = np.log(pi[action] / mu[action])
    data = Steps(
        log_ratios=log_ratios,
        discounts=options.gamma * (1.0 - fields["dones"].T),
        rewards=fields["rewards"].T + options.gamma * fields["bootstraps"].T,
        values=values[:-1],
        bootstrap_value=values[-1],
    )
    targets = vtrace_targets(data, options.rho_const, options.c_const, options.trace_lambda, chosen)
    advantages = vtrace_advantages(data, targets, options.rho_const)
    sums = np.zeros(len(TERMS))
    for t, b in np.ndindex(steps, size):
        pi, mu, log_probability = policies[t, b]
        if chosen[t, b]:
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
    return trusted if options.use_kl_mask else np.ones_like(trusted)


@pytest.mark.parametrize("layout", [LAYOUT, LSTM_LAYOUT], ids=["no_lstm", "lstm"])
def test_the_network_inputs_are_the_observations_of_the_environment(layout: UnrollLayout) -> None:
    batch = make_batch([True] * 8, layout)
    inputs = inputs_of(batch, layout)
    expected = slow_input(layout, batch)
    for name, tensor in expected._asdict().items():
        assert torch.equal(getattr(inputs, name), tensor), name
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
def test_the_reported_terms_match_their_definitions(options: LossOptions, fresh: list[bool]) -> None:
    batch = make_batch(fresh, LSTM_LAYOUT)
    learner = make_learner(options, layout=LSTM_LAYOUT)
    with torch.no_grad():
        output = learner.network(slow_input(LSTM_LAYOUT, batch))
    fields = LSTM_LAYOUT.arrays(batch.rows.numpy())
    numbers = {name: array.astype(np.float64) for name, array in fields.items() if array.dtype != np.int64}
    logits, values = output.logits[:-1].double().numpy(), output.values.double().numpy()
    expected = slow_terms(options, numbers, logits, values, fresh)
    report = reported(learner, batch)
    np.testing.assert_allclose([report[name] for name in TERMS], expected, rtol=1e-4, atol=1e-6)
    assert report["total_loss"] == pytest.approx(expected.sum(), rel=1e-4, abs=1e-6)
    trusted = trusted_by_definition(options, numbers, logits)
    for name, kind in (("dropped_fresh", np.array(fresh)), ("dropped_replayed", ~np.array(fresh))):
        share = (~trusted[:, kind]).mean() if kind.any() else math.nan
        assert report[name] == pytest.approx(share, nan_ok=True)
    assert (0 < (~trusted).mean() < 1) == options.use_kl_mask


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
    for name in (*TERMS, "total_loss", "gradient_norm"):
        assert total[name] == pytest.approx(5 * 3 * mean[name], rel=1e-4)
        assert mean[name] != 0


def test_entropy_and_cloning_losses_have_a_gradient_in_their_samples_only() -> None:
    """With one term only, a mixed batch has half the gradient of its fresh, or of its replayed half."""
    nothing = LossOptions(
        policy_gradient_loss_weight=0,
        value_loss_weight=0,
        entropy_loss_weight=0,
        proximal_loss_weight=0,
        use_policy_cloning_loss=False,
        use_value_cloning_loss=False,
    )
    entropy_only = dataclasses.replace(nothing, entropy_loss_weight=1.0)
    proximal_only = dataclasses.replace(nothing, proximal_loss_weight=1.0)
    cloning_only = dataclasses.replace(nothing, use_policy_cloning_loss=True, policy_cloning_loss_weight=1.0)
    value_cloning_only = dataclasses.replace(nothing, use_value_cloning_loss=True, value_cloning_loss_weight=1.0)
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


def test_an_untrusted_state_has_no_policy_and_no_value_loss() -> None:
    options = LossOptions(use_kl_mask=True, kl_div_threshold=1e-9, entropy_loss_weight=0, proximal_loss_weight=0)
    learner = make_learner(options)
    before = weights_of(learner)
    report = reported(learner, make_batch([True] * 4))
    assert report["dropped_fresh"] == 1
    assert math.isnan(report["dropped_replayed"])
    assert report["total_loss"] == report["gradient_norm"] == 0
    for weight, old in zip(weights_of(learner), before, strict=True):
        np.testing.assert_array_equal(weight, old)


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


# --- Steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_repeated_updates_fit_one_batch(optimizer: str) -> None:
    learner = make_learner(LossOptions(value_loss_weight=1.0), OptimizerOptions(optimizer=optimizer, lr=1e-3))
    batch = make_batch([True] * 4)
    value_losses = [reported(learner, batch)["value_loss"] for _ in range(40)]
    assert value_losses[-1] < 0.3 * value_losses[0]
    assert learner.updates == 40


def test_the_nature_network_learns() -> None:
    layout = UnrollLayout(unroll_length=2, frame_stack=4, frame_shape=(1, 84, 84), action_count=6)
    torch.manual_seed(0)
    network = ActorCritic("nature", (4, 84, 84), 6)
    options = OptimizerOptions(optimizer="adam", lr=3e-4)
    learner = Learner(network, layout, LossOptions(), options, 100, torch.device("cpu"))
    batch = make_batch([True, False], layout)
    value_losses = [reported(learner, batch)["value_loss"] for _ in range(6)]
    assert value_losses[-1] < value_losses[0]


def test_gradients_are_clipped_by_norm() -> None:
    batch = make_batch([True] * 3)
    free = make_learner(optimizer=OptimizerOptions(gradient_clip_by_norm_threshold=0))
    length = reported(free, batch)["gradient_norm"]
    full = gradients(free)
    assert length == pytest.approx(length_of(full), rel=1e-4)
    for threshold in (0.5 * length, 2 * length):
        clipped = make_learner(optimizer=OptimizerOptions(gradient_clip_by_norm_threshold=threshold))
        assert reported(clipped, batch)["gradient_norm"] == pytest.approx(length, rel=1e-4)
        shortened = gradients(clipped)
        factor = min(1.0, threshold / length)
        assert length_of(shortened) == pytest.approx(factor * length, rel=1e-4)
        for name, gradient in shortened.items():
            torch.testing.assert_close(gradient, factor * full[name], rtol=1e-3, atol=1e-7)


def weights_of(learner: Learner) -> list[Array]:
    return [parameter.detach().double().numpy() for parameter in learner.network.parameters()]


def gradients_of(learner: Learner) -> list[Array]:
    return [gradient.double().numpy() for gradient in gradients(learner).values()]


def test_rmsprop_steps_match_the_definition() -> None:
    alpha, eps, momentum = 0.8, 0.02, 0.5
    options = OptimizerOptions(
        lr=0.01, lr_end_value=0.001, rmsprop_alpha=alpha, rmsprop_eps=eps, rmsprop_momentum=momentum
    )
    learner, batch = make_learner(optimizer=options, schedule_updates=2), make_batch([True] * 3)
    expected = weights_of(learner)
    squares, moving = ([np.zeros_like(weight) for weight in expected] for _ in range(2))
    for step, scheduled in enumerate((0.01, 0.0055, 0.001, 0.001), 1):
        learner.update(batch)
        rate = scheduled * (1 - alpha**step) ** 0.5  # bias correction of the mean of squares
        for i, gradient in enumerate(gradients_of(learner)):
            squares[i] = alpha * squares[i] + (1 - alpha) * gradient**2
            moving[i] = momentum * moving[i] + gradient / (np.sqrt(squares[i]) + eps)
            expected[i] = expected[i] - rate * moving[i]
        for weight, slow in zip(weights_of(learner), expected, strict=True):
            np.testing.assert_allclose(weight, slow, rtol=1e-4, atol=1e-6)


def test_adam_steps_match_the_definition() -> None:
    beta1, beta2, eps = 0.7, 0.9, 0.01
    options = OptimizerOptions(optimizer="adam", lr=0.01, adam_beta1=beta1, adam_beta2=beta2, adam_eps=eps)
    learner, batch = make_learner(optimizer=options, schedule_updates=4), make_batch([True] * 3)
    expected = weights_of(learner)
    means, squares = ([np.zeros_like(weight) for weight in expected] for _ in range(2))
    for step, rate in enumerate((0.01, 0.0075, 0.005), start=1):
        learner.update(batch)
        for i, gradient in enumerate(gradients_of(learner)):
            means[i] = beta1 * means[i] + (1 - beta1) * gradient
            squares[i] = beta2 * squares[i] + (1 - beta2) * gradient**2
            mean, square = means[i] / (1 - beta1**step), squares[i] / (1 - beta2**step)
            expected[i] = expected[i] - rate * mean / (np.sqrt(square) + eps)
        for weight, slow in zip(weights_of(learner), expected, strict=True):
            np.testing.assert_allclose(weight, slow, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("power", "rates"),
    [(1.0, {0: 1.0, 1: 0.775, 2: 0.55, 4: 0.1, 9: 0.1}), (2.0, {0: 1.0, 2: 0.325, 3: 0.15625, 4: 0.1, 5: 0.1})],
)
def test_the_learning_rate_decays_polynomially_and_then_stays(power: float, rates: dict[int, float]) -> None:
    options = OptimizerOptions(lr=1.0, lr_end_value=0.1, lr_power=power)
    learner = make_learner(optimizer=options, schedule_updates=4)
    for updates, rate in rates.items():
        learner.updates = updates
        assert learner.learning_rate == pytest.approx(rate)
        assert reported(learner, make_batch([True]))["learning_rate"] == pytest.approx(rate)
        assert learner.updates == updates + 1


@pytest.mark.parametrize(
    ("warmup", "schedule", "expected"),
    [
        (4, 40, [1 / 4, 39 / 80, 57 / 80, 37 / 40, 36 / 40, 35 / 40]),
        (300, 20, [1 / 2, 19 / 20, 18 / 20, 17 / 20, 16 / 20, 15 / 20]),  # never more than a tenth of the schedule
        (300, 9, [9 / 9, 8 / 9, 7 / 9, 6 / 9, 5 / 9, 4 / 9]),
    ],
)
def test_the_learning_rate_is_warmed_up(warmup: int, schedule: int, expected: list[float]) -> None:
    learner = make_learner(optimizer=OptimizerOptions(lr=1.0), schedule_updates=schedule, warmup=warmup)
    rates = []
    for _ in range(6):
        rates.append(learner.learning_rate)
        learner.update(make_batch([True]))
    assert rates == pytest.approx(expected)


def test_a_learning_rate_of_zero_changes_no_weight() -> None:
    """The second update reports the same gradient: no gradient is left over from the first."""
    learner, batch = make_learner(schedule_updates=3), make_batch([True])
    learner.updates = 3
    learner.network.update_background_mean(inputs_of(batch).observations[0], 1.0)
    before = flat_weights(learner.network)
    reports = [reported(learner, batch) for _ in range(2)]
    assert reports[0]["learning_rate"] == 0
    torch.testing.assert_close(flat_weights(learner.network), before)
    assert reports[1] == pytest.approx(reports[0], rel=1e-6, nan_ok=True)


def test_the_background_is_a_mean_and_later_a_moving_average() -> None:
    learner, batches = make_learner(), [make_batch([True, False], seed=seed) for seed in range(3)]
    firsts = [inputs_of(batch).observations[0].float() for batch in batches]
    for batch in batches:
        learner.update(batch)
    torch.testing.assert_close(learner.network.background, torch.cat(firsts).mean(0))
    learner.updates, before = 5000, learner.network.background.clone()
    learner.update(batches[0])
    torch.testing.assert_close(learner.network.background, before + (firsts[0].mean(0) - before) / 1000)


def test_an_update_does_not_change_the_batch() -> None:
    batch, learner = make_batch([True, False], LSTM_LAYOUT), make_learner(ALL_TERMS, layout=LSTM_LAYOUT)
    rows, before = batch.rows.clone(), flat_weights(learner.network)
    report = learner.update(batch)
    assert torch.equal(batch.rows, rows)
    assert not torch.equal(flat_weights(learner.network), before)
    assert not any(value.requires_grad or value.dim() for value in report.values())


def test_equal_seeds_and_batches_give_equal_weights() -> None:
    ends = []
    for _ in range(2):
        learner = make_learner(ALL_TERMS)
        for seed in range(3):
            learner.update(make_batch([True, False], seed=seed))
        ends.append(flat_weights(learner.network))
    assert torch.equal(*ends)


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {"rmsprop_momentum": 0.9}), ({"rmsprop_momentum": 0.9}, {}), ({}, {"optimizer": "adam"}), ({}, {"lr": 1e-2})],
)
def test_an_optimizer_is_resumed_with_other_options(before: dict[str, Any], after: dict[str, Any]) -> None:
    first, second = make_learner(None, OptimizerOptions(**before)), make_learner(None, OptimizerOptions(**after))
    batch = make_batch([True] * 2)
    first.update(batch)
    second.load_state_dict(first.state_dict())
    weights = weights_of(second)
    second.update(batch)
    assert second.updates == 2
    assert all(
        np.isfinite(new).all() and (new != old).any() for new, old in zip(weights_of(second), weights, strict=True)
    )


def test_a_batch_of_one_state_works() -> None:
    layout = dataclasses.replace(LAYOUT, unroll_length=1)
    learner = make_learner(layout=layout)
    assert math.isfinite(reported(learner, make_batch([True], layout))["total_loss"])


# --- The same policy in a worker --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["nature", "impala_shallow", "conv3", "impala_deep"])
def test_an_actor_computes_the_same_bits_as_the_learner(name: str, dtype: torch.dtype) -> None:
    """The actor rounds its weights to bfloat16 once, autocast rounds them at every step."""
    torch.manual_seed(0)
    network = ActorCritic(name, (4, 36, 36), 6, compute_dtype=dtype)
    torch.nn.init.normal_(network.policy_head.weight)
    twin = copy.deepcopy(network)
    load_flat_weights(twin, torch.zeros(weight_count(twin)))
    layout = UnrollLayout(unroll_length=1, frame_stack=4, frame_shape=(1, 36, 36), action_count=6)
    learner = Learner(network, layout, LossOptions(), OptimizerOptions(), 1, torch.device("cpu"))
    actor = Actor(twin)
    actor.load(flat_weights(learner.network))
    observations = torch.randint(0, 256, (8, 4, 36, 36), dtype=torch.uint8)
    state = ActorState.at_start(8, 0)
    decision = actor.act(observations, state, torch.rand(8))
    inputs = NetworkInput(
        observations=observations[None],
        previous_actions=state.previous_actions[None],
        previous_rewards=state.previous_rewards[None],
        starts=torch.zeros(1, 8, dtype=torch.bool),
        lstm_state=state.lstm_state,
    )
    with torch.no_grad():
        output = learner.network(inputs)
    assert torch.equal(decision.logits, output.logits[0])
    assert torch.equal(decision.values, output.values[0])
    assert decision.logits.std() > 0.01


@pytest.mark.parametrize("layout", [LAYOUT, LSTM_LAYOUT], ids=["feed-forward", "LSTM"])
def test_an_update_uses_tensors_of_its_device_only(monkeypatch: pytest.MonkeyPatch, layout: UnrollLayout) -> None:
    """The device `meta` computes nothing, but refuses CPU tensors as a GPU does."""
    elsewhere, real = torch.device("meta"), torch.autocast
    monkeypatch.setattr(torch, "autocast", lambda _, *others, **named: real("cpu", *others, **named))
    options = NetworkOptions(network="impala_shallow", use_lstm=bool(layout.lstm_size), lstm_size=6)
    network = make_network(options, layout, torch.float32)
    learner = Learner(network, layout, ALL_TERMS, OptimizerOptions(), 100, elsewhere)
    for _ in range(2):
        report = learner.update(make_batch([True, True, False, False], layout))
        assert {figure.device for figure in report.values()} == {elsewhere}
    assert flat_weights(network).device == elsewhere
    with pytest.raises(RuntimeError, match="device"):
        torch.zeros(3) + torch.zeros(3, device=elsewhere)


@pytest.mark.parametrize("damage", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_detected(damage: float) -> None:
    learner = make_learner()
    assert learner.is_finite()
    with torch.no_grad():
        list(learner.network.parameters())[-1][-1] = damage
    assert not learner.is_finite()
