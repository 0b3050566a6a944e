"""Networks for every combination of observations and actions: their torsos, their inputs and their updates."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from agents.acting import Actor, ActorState
from agents.learner import Learner
from agents.network import ActorCritic, make_network
from agents.policy_heads import FIRST_LOG_DEVIATION
from agents.torsos.make_torso import PictureAndVector, chosen_network, first_vector_layer, make_torso
from agents.torsos.observed import Observed
from agents.torsos.pictures import PICTURE_NETWORKS
from option_flags import LossOptions, NetworkOptions, OptimizerOptions
from options.rules import UsageError
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout
from tests.agents.learners import ALL_TERMS

STEPS, VECTOR, ONE_HOT = 4, 6, 2
PICTURES = UnrollLayout(unroll_length=STEPS, frame_stack=2, frame_shape=(1, 12, 12), action_count=5, feature_size=3)
PARTS: dict[str, dict[str, Any]] = {
    "picture": {},
    "vector": {
        "frame_stack": 0,
        "frame_shape": (0, 0, 0),
        "vector_size": VECTOR,
        "one_hot_size": ONE_HOT,
    },
    "both": {"vector_size": VECTOR, "one_hot_size": ONE_HOT},
}
ACTIONS: dict[str, dict[str, Any]] = {
    "discrete": {"action_kind": "discrete", "action_count": 5},
    "product": {"action_kind": "product", "action_sizes": (2, 3), "action_count": 5},
    "gaussian": {"action_kind": "gaussian", "action_sizes": (1, 1), "action_count": 4},
}
every_layout = pytest.mark.parametrize(
    "layout",
    [
        pytest.param(replace(PICTURES, **parts, **actions, lstm_size=lstm), id=f"{observed}-{kind}-{lstm}")
        for observed, parts in PARTS.items()
        for kind, actions in ACTIONS.items()
        for lstm in (0, 3)
    ],
)
vectors_only = replace(PICTURES, **PARTS["vector"])


def network_of(layout: UnrollLayout, seed: int = 0, dtype: torch.dtype = torch.float32) -> ActorCritic:
    torch.manual_seed(seed)
    network = make_network(NetworkOptions(), layout, dtype)
    torch.nn.init.normal_(network.policy_head.weight, std=0.3)
    return network


def learner_of(
    layout: UnrollLayout, loss: LossOptions = ALL_TERMS, optimizer: OptimizerOptions | None = None
) -> Learner:
    optimizer = replace(optimizer or OptimizerOptions(), lr_warmup_updates=0)
    return Learner(network_of(layout), layout, loss, optimizer, 100, torch.device("cpu"))


def played(layout: UnrollLayout, network: ActorCritic, count: int, seed: int = 0) -> Batch:
    """Unrolls of an actor that sees random observations, as a worker stores them; episodes end at random."""
    rng, actor = np.random.default_rng(seed), Actor(network)
    state = ActorState.at_start(count, layout.lstm_size, layout.action_shape, layout.action_dtype)
    rows = np.zeros((count, layout.nbytes), np.uint8)
    fields = layout.arrays(rows)
    fields["frames"][:] = rng.integers(0, 256, fields["frames"].shape)
    fields["rewards"][:] = rng.normal(0, 1, (count, STEPS))
    if layout.vector_size:
        fields["vectors"][:] = rng.normal(3, 2, fields["vectors"].shape)
        fields["vectors"][..., -ONE_HOT:] = rng.integers(0, 2, (count, STEPS + 1, ONE_HOT))
    fields["first_action"][:], fields["first_lstm_state"][:] = state.previous_actions, state.lstm_state
    shape = count, layout.frame_stack * layout.frame_shape[0], *layout.frame_shape[1:]
    stack = fields["frames"][:, : layout.frame_stack].reshape(shape).copy()
    with torch.inference_mode():
        for t in range(STEPS):
            vectors = torch.from_numpy(fields["vectors"][:, t].copy()) if layout.vector_size else None
            uniforms = torch.from_numpy(rng.random((count, *layout.action_shape)))
            decision = actor.act(torch.from_numpy(stack.copy()), state, uniforms, vectors)
            fields["actions"][:, t], fields["behaviour_logits"][:, t] = decision.actions, decision.logits
            fields["values"][:, t], fields["features"][:, t] = decision.values, decision.features
            state.lstm_state = decision.lstm_state
            state.previous_actions.copy_(decision.actions)
            state.previous_rewards = torch.from_numpy(fields["rewards"][:, t].copy())
            if layout.has_pictures:
                stack = np.concatenate([stack[:, 1:], fields["frames"][:, layout.frame_stack + t]], axis=1)
            if t == 1:
                fields["dones"][0, t] = 1
                state.restart(0)
                stack[0] = fields["frames"][0, layout.frame_stack + t] if layout.has_pictures else 0
    return Batch(torch.from_numpy(rows), np.arange(count) % 2 == 0)


@every_layout
def test_on_the_weights_that_acted_the_learner_finds_the_policy_that_acted(layout: UnrollLayout) -> None:
    """Ratios of 1 and a divergence of 0: actor and learner see the same observations, actions and memory."""
    learner = learner_of(layout)
    batch = played(layout, network_of(layout), 6)
    report = {name: float(value) for name, value in learner.update(batch).items()}
    assert report["ratio_fresh"] == pytest.approx(1, abs=1e-4) and report["ratio_replayed"] == pytest.approx(
        1, abs=1e-4
    )
    assert abs(report["kl_fresh"]) < 1e-6 and abs(report["kl_replayed"]) < 1e-6
    assert report["dropped_fresh"] == report["dropped_replayed"] == 0
    assert report["policy_spread"] > 1e-3
    assert all(np.isfinite(value) for value in report.values())


@every_layout
def test_updates_change_every_parameter_and_stay_finite(layout: UnrollLayout) -> None:
    learner = learner_of(layout, replace(ALL_TERMS, use_kl_mask=False))  # the policy that acts is far away
    before = {name: parameter.detach().clone() for name, parameter in learner.network.named_parameters()}
    for seed in range(3):
        learner.update(played(layout, network_of(layout, seed=1), 6, seed))
    assert learner.is_finite()
    for name, parameter in learner.network.named_parameters():
        assert not torch.equal(parameter, before[name]), name


@every_layout
def test_weights_survive_saving(layout: UnrollLayout) -> None:
    learner, other = learner_of(layout), learner_of(layout)
    learner.update(played(layout, network_of(layout, seed=1), 6))
    other.load_state_dict(learner.state_dict())
    for name, weights in learner.network.state_dict().items():
        assert torch.equal(weights, other.network.state_dict()[name]), name


def test_the_network_is_chosen_by_the_observation() -> None:
    assert chosen_network(Observed((0, 0, 0), 8)) == "mlp"
    expectations = {(3, 9, 12): "small_conv", (3, 10, 10): "tiny_conv", (3, 35, 84): "tiny_conv", (4, 36, 36): "nature"}
    for size, expected in expectations.items():
        assert chosen_network(Observed(size, 0)) == chosen_network(Observed(size, 3)) == expected
    nature, automatic = make_torso("nature", Observed((4, 84, 84), 0)), make_torso("auto", Observed((4, 84, 84), 0))
    assert str(nature) == str(automatic)


@pytest.mark.parametrize("shape", [(4, 10, 10), (9, 7, 7), (1, 1, 1), (2, 5, 30), (4, 84, 84), (3, 128, 128)])
@pytest.mark.parametrize("vector", [0, 3])
@pytest.mark.parametrize("name", ["small_conv", "tiny_conv"])
def test_small_convolutions_take_pictures_of_any_size(name: str, shape: tuple[int, int, int], vector: int) -> None:
    if name == "tiny_conv" and min(shape[1:]) < 5:
        with pytest.raises(UsageError, match="too small for --network=tiny_conv"):
            make_torso(name, Observed(shape, vector))
        return
    torso, size = make_torso(name, Observed(shape, vector))
    picture = torch.rand(2, *shape)
    assert torso((picture, torch.rand(2, vector)) if vector else picture).shape == (2, size)
    assert sum(parameter.numel() for parameter in torso.parameters()) < 20e6


@pytest.mark.parametrize("name", PICTURE_NETWORKS)
def test_every_picture_network_takes_a_vector_too(name: str) -> None:
    torso, size = make_torso(name, Observed((2, 40, 44), 5))
    assert isinstance(torso, PictureAndVector)
    picture, vector = torch.rand(3, 2, 40, 44), torch.rand(3, 5)
    features = torso((picture, vector))
    assert features.shape == (3, size)
    assert not torch.equal(torso((picture, vector + 1)), features)
    assert not torch.equal(torso((picture + 1, vector)), features)


@pytest.mark.parametrize(
    ("name", "observed", "sentence"),
    [
        ("mlp", Observed((4, 84, 84), 0), "--network=mlp does not fit .* have a picture; auto, or nature, would"),
        ("mlp", Observed((4, 9, 9), 2), "--network=mlp does not fit .* have a picture; auto, or small_conv, would"),
        ("nature", Observed((0, 0, 0), 8), "--network=nature does not fit .* have no picture; auto, or mlp, would"),
        ("nature", Observed((4, 10, 10), 0), "resolution=10,10 is too small for --network=nature; .* --network=auto"),
        ("small_conv", Observed((1, 200, 200), 0), "--network=small_conv is for pictures of at most 16,384 pixels"),
        ("tiny_conv", Observed((1, 200, 200), 0), "--network=tiny_conv is for pictures of at most 16,384 pixels"),
    ],
)
def test_networks_that_do_not_fit_are_refused(name: str, observed: Observed, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        make_torso(name, observed)


def test_numbers_that_float32_cannot_square_stay_finite() -> None:
    network = network_of(vectors_only)
    states = torch.full((3, VECTOR), 3e38)
    states[0] = -3e38
    for _ in range(2):
        network.update_vector_statistics(states, 1.0)
        normalised = network.normalised(states)
        assert normalised is not None and bool(torch.isfinite(normalised).all())


def test_statistics_of_vectors_are_those_of_all_states_while_their_weights_are_equal() -> None:
    network = network_of(vectors_only)
    states = torch.randn(5, 40, VECTOR, generator=torch.Generator().manual_seed(0)) * torch.arange(VECTOR) + 7
    for count, batch in enumerate(states, 1):
        network.update_vector_statistics(batch, 1 / count)
    everything, measured = states.flatten(0, 1), VECTOR - ONE_HOT
    assert network.vector_mean is not None and network.vector_deviation is not None
    torch.testing.assert_close(network.vector_mean[:measured], everything.mean(0)[:measured])
    deviations = everything.std(0, correction=0)[:measured]
    assert deviations[0] == 0
    torch.testing.assert_close(network.vector_deviation[1:measured], deviations[1:], rtol=1e-5, atol=1e-6)
    assert network.vector_deviation[0] > 0, "a constant entry does not divide by zero"
    assert network.vector_mean[measured:].tolist() == [0] * ONE_HOT
    assert network.vector_deviation[measured:].tolist() == [1] * ONE_HOT


@pytest.mark.parametrize("name", ["vector", "both"])
def test_the_first_layer_follows_the_statistics_of_vectors(name: str) -> None:
    """Once the averages have settled, new ones do not change what the network says about any state."""
    layout = replace(PICTURES, **PARTS[name], **ACTIONS["gaussian"])
    network = network_of(layout)
    generator = torch.Generator().manual_seed(0)
    states = 3 + 2 * torch.randn(40, VECTOR, generator=generator)
    states[:, -ONE_HOT:] = states[:, -ONE_HOT:].gt(3).float()
    network.update_vector_statistics(states, 1.0)
    pictures = torch.randint(0, 256, (40, *network.background.shape), dtype=torch.uint8, generator=generator)
    before, inputs_before = network.features(pictures, states), network.normalised(states)
    network.update_vector_statistics(2 * states - 8, 0.2, keep_function=True)
    inputs = network.normalised(states)
    assert inputs is not None and inputs_before is not None and (inputs - inputs_before).abs().max() > 0.5
    torch.testing.assert_close(network.features(pictures, states), before, rtol=1e-4, atol=1e-5)


def test_an_entry_that_was_constant_for_long_gets_no_large_weight() -> None:
    """Such as the state of a door that no game has opened so far; then it opens now and then."""
    network = network_of(vectors_only)
    generator = torch.Generator().manual_seed(0)
    for count in range(2000):
        states = torch.randn(40, VECTOR, generator=generator)
        states[:, 0] = torch.rand(40, generator=generator) < 0.02 if count > 1000 else 0
        network.update_vector_statistics(states, max(0.001, 1 / (1 + count)), keep_function=count > 900)
    layer = first_vector_layer(network.torso)
    fresh = first_vector_layer(network_of(vectors_only).torso)
    assert network.vector_deviation is not None and network.vector_deviation[0] > 0.1, "its deviation is seen"
    assert layer.weight[:, 0].abs().max() < 2 * fresh.weight[:, 0].abs().max()


def test_a_learner_keeps_what_its_network_says_once_the_statistics_of_vectors_have_settled() -> None:
    """Before that, the first statistics make large inputs small. The learning rate is nearly 0."""
    batch = played(vectors_only, network_of(vectors_only, seed=1), 6)
    states = torch.linspace(-5, 9, 6 * VECTOR).view(6, VECTOR)
    changes = []
    for past in (0, 10**4):
        learner = learner_of(vectors_only, optimizer=OptimizerOptions(lr=1e-12))
        learner.keep_background(past)
        before = learner.network.features(torch.zeros(6, 0, 0, 0, dtype=torch.uint8), states)
        mean = learner.network.vector_mean
        assert mean is not None and not mean.any()
        learner.update(batch)
        assert mean[:-ONE_HOT].all(), "the statistics have moved"
        after = learner.network.features(torch.zeros(6, 0, 0, 0, dtype=torch.uint8), states)
        changes.append(float((after - before).abs().max().detach()))
    first, settled = changes
    assert first > 0.1 and settled < 1e-5


@pytest.mark.parametrize(("past", "weight"), [(0, 0.001), (49, 0.001), (74, 0.0005), (89, 0.0002), (100, 1e-6)])
def test_the_averages_of_vectors_for_a_torso_of_ones_own_slow_down_in_the_second_half(past: int, weight: float) -> None:
    """Otherwise a policy that comes to new states, but hardly learns any more, sees all other states changed too."""
    optimizer = OptimizerOptions(lr=0.01, lr_end_value=0.0)
    learner, first = learner_of(vectors_only, optimizer=optimizer), learner_of(vectors_only)
    learner.network.has_own_torso = True
    batch = played(vectors_only, network_of(vectors_only, seed=1), 6)
    learner.keep_background(10**6 - past - 1)
    learner.updates = past  # of 100
    learner.update(batch)
    first.update(batch)
    moved, of_batch = learner.network.vector_mean, first.network.vector_mean  # both were 0
    assert moved is not None and of_batch is not None and of_batch.count_nonzero() == VECTOR - ONE_HOT
    torch.testing.assert_close(moved, of_batch * weight, rtol=0.02, atol=0)


def test_zeros_and_ones_alone_have_no_statistics() -> None:
    """As those of FrozenLake. A variance of no numbers would be a warning, which is an error in tests."""
    network = network_of(replace(vectors_only, one_hot_size=VECTOR))
    bits = torch.eye(VECTOR)
    network.update_vector_statistics(bits, 1.0)
    seen = network.normalised(bits)
    assert seen is not None and torch.equal(seen, bits)


def test_the_torso_sees_normalised_and_clipped_vectors() -> None:
    network = network_of(vectors_only)
    assert network.vector_mean is not None and network.vector_deviation is not None
    network.vector_mean[:2], network.vector_deviation[:2] = torch.tensor([1.0, 100.0]), torch.tensor([2.0, 0.5])
    seen: list[torch.Tensor] = []
    network.torso.register_forward_pre_hook(lambda _torso, args: seen.append(args[0]))
    network.features(torch.zeros(1, 0, 0, 0, dtype=torch.uint8), torch.tensor([[2.0, 0.0, -50.0, 4.0, 1.0, 0.0]]))
    assert seen[0].tolist() == [[0.5, -10.0, -10.0, 4.0, 1.0, 0.0]]
    with pytest.raises(ValueError, match="needs the vectors"):
        network.features(torch.zeros(1, 0, 0, 0, dtype=torch.uint8))


def test_the_learner_updates_the_statistics_with_all_states_of_a_batch() -> None:
    layout = replace(vectors_only, **ACTIONS["gaussian"])
    learner, batch = learner_of(layout), played(layout, network_of(layout), 6)
    learner.update(batch)
    states = layout.tensors(batch.rows)["vectors"].flatten(0, 1)[:, : VECTOR - ONE_HOT]
    network = learner.network
    assert network.vector_mean is not None and network.vector_deviation is not None
    torch.testing.assert_close(network.vector_mean[: VECTOR - ONE_HOT], states.mean(0), rtol=1e-5, atol=1e-5)
    found = network.vector_deviation[: VECTOR - ONE_HOT]
    torch.testing.assert_close(found, states.std(0, correction=0), rtol=1e-4, atol=1e-5)


def test_pictures_alone_have_no_statistics_of_vectors() -> None:
    names = set(network_of(PICTURES).state_dict())
    assert "background" in names and not {name for name in names if name.startswith("vector")}
    assert {"vector_mean", "vector_deviation"} <= set(network_of(vectors_only).state_dict())


def test_vectors_alone_are_computed_in_float32() -> None:
    network = network_of(vectors_only, dtype=torch.bfloat16)
    network.features(torch.zeros(2, 0, 0, 0, dtype=torch.uint8), torch.randn(2, VECTOR))
    assert network.compute_dtype == torch.float32
    features = network.features(torch.zeros(2, 0, 0, 0, dtype=torch.uint8), torch.randn(2, VECTOR))
    assert not torch.equal(features, features.bfloat16().float())


def test_a_picture_beside_a_vector_is_computed_in_bfloat16_alike_by_actor_and_learner() -> None:
    layout = replace(PICTURES, **PARTS["both"], **ACTIONS["gaussian"])
    learner = learner_of(layout)
    learner.network.compute_dtype = torch.bfloat16
    batch = played(layout, network_of(layout, dtype=torch.bfloat16), 6)
    report = {name: float(value) for name, value in learner.update(batch).items()}
    assert report["ratio_fresh"] == pytest.approx(1, abs=2e-2)


def test_the_first_gaussian_policy_is_centred_and_moderately_random() -> None:
    torch.manual_seed(0)
    network = make_network(NetworkOptions(), replace(vectors_only, **ACTIONS["gaussian"]), torch.float32)
    features = network.features(torch.zeros(50, 0, 0, 0, dtype=torch.uint8), torch.randn(50, VECTOR))
    means, log_deviations = network.policy_head(features).split(2, -1)
    assert means.abs().max() < 0.1 and means.std() > 0
    assert (log_deviations == torch.tensor(FIRST_LOG_DEVIATION)).all()


@pytest.mark.parametrize("lstm_size", [0, 3])
@pytest.mark.parametrize(("saved_kind", "own_kind"), [("gaussian", "discrete"), ("product", "gaussian")])
def test_weights_fit_a_network_with_other_actions(saved_kind: str, own_kind: str, lstm_size: int) -> None:
    layouts = [replace(vectors_only, **ACTIONS[kind], lstm_size=lstm_size) for kind in (saved_kind, own_kind)]
    saved, own = (network_of(layout, seed) for seed, layout in enumerate(layouts))
    head = {name: weights.clone() for name, weights in own.policy_head.state_dict().items()}
    own.load_saved(own.adapted(saved.state_dict()))
    for name, weights in own.policy_head.state_dict().items():
        assert torch.equal(weights, head[name]), "the policy head stays"
    for mine, theirs in zip(own.torso.parameters(), saved.torso.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert own.adapted(own.state_dict()).keys() == own.state_dict().keys()
