"""Networks for every combination of observations and actions: their torsos, their inputs and their updates."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.distributions import LARGEST_LOG_DEVIATION, SMALLEST_LOG_DEVIATION
from agents.heads import FIRST_LOG_DEVIATION, GaussianHead
from agents.network import ActorCritic
from agents.torsos.make_torso import Observed, PictureAndVector, chosen_network, make_torso
from option_flags import NetworkOptions
from options.learning_options import PICTURE_NETWORKS
from options.rules import UsageError
from replay.unroll_layout import UnrollLayout
from tests.agents.every_layout import (
    ACTIONS,
    PARTS,
    PICTURES,
    VECTOR,
    every_layout,
    learner_of,
    network_of,
    played,
    vectors_only,
)
from tests.agents.learners import ALL_TERMS


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


@pytest.mark.parametrize("shape", [(4, 10, 10), (9, 7, 7), (1, 1, 1), (2, 5, 30), (4, 84, 84), (3, 128, 128)])
@pytest.mark.parametrize("vector", [0, 3])
@pytest.mark.parametrize("name", ["small_conv", "tiny_conv"])
@pytest.mark.slow
def test_small_convolutions_take_pictures_of_any_size(name: str, shape: tuple[int, int, int], vector: int) -> None:
    if name == "tiny_conv" and min(shape[1:]) < 5:
        with pytest.raises(UsageError, match="too small for --network=tiny_conv"):
            make_torso(name, Observed(shape, vector))
        return
    torso, size = make_torso(name, Observed(shape, vector))
    picture = torch.rand(2, *shape)
    assert torso((picture, torch.rand(2, vector)) if vector else picture).shape == (2, size)
    assert sum(parameter.numel() for parameter in torso.parameters()) < 20e6


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("name", PICTURE_NETWORKS)
def test_every_picture_network_takes_a_vector_too(name: str, width: int) -> None:
    torso, size = make_torso(name, Observed((2, 40, 44), 5), width)
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
        ("separate_mlp", Observed((4, 84, 84), 0), "--network=separate_mlp does not fit .*; auto, or nature, would"),
        ("nature", Observed((0, 0, 0), 8), "--network=nature does not fit .* have no picture; auto, or mlp, would"),
        ("nature", Observed((4, 10, 10), 0), "resolution=10,10 is too small for --network=nature; .* --network=auto"),
        ("small_conv", Observed((1, 200, 200), 0), "--network=small_conv is for pictures of at most 16,384 pixels"),
        ("tiny_conv", Observed((1, 200, 200), 0), "--network=tiny_conv is for pictures of at most 16,384 pixels"),
    ],
)
def test_networks_that_do_not_fit_are_refused(name: str, observed: Observed, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        make_torso(name, observed)


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
    network = ActorCritic(NetworkOptions(), replace(vectors_only, **ACTIONS["gaussian"]), torch.float32)
    features = network.features(torch.zeros(50, 0, 0, 0, dtype=torch.uint8), torch.randn(50, VECTOR))
    means, log_deviations = network.policy_head(features).split(2, -1)
    assert means.abs().max() < 0.1 and means.std() > 0
    assert (log_deviations == torch.tensor(FIRST_LOG_DEVIATION)).all()


@pytest.mark.parametrize("end", [SMALLEST_LOG_DEVIATION, LARGEST_LOG_DEVIATION])
def test_a_deviation_at_an_end_of_its_range_can_come_back(end: float) -> None:
    """A step beyond the range would be the last one, because there the gradient is 0."""
    layout = replace(PICTURES, **PARTS["vector"], **ACTIONS["gaussian"])
    learner = learner_of(layout, replace(ALL_TERMS, use_kl_mask=False))  # the policy that acts is far away
    head = learner.network.policy_head
    assert isinstance(head, GaussianHead)
    outside = end + (1.0 if end > 0 else -1.0)
    with torch.no_grad():
        head.log_deviations.fill_(outside)
    learner.update(played(layout, network_of(layout), 6))
    assert (head.log_deviations == end).all()
    learner.update(played(layout, network_of(layout, seed=1), 6))
    assert head.log_deviations.grad is not None and head.log_deviations.grad.any()


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
