"""The mean and deviation that normalise vectors, and the first layer, which follows them."""

from dataclasses import replace

import pytest
import torch

from agents.torsos.make_torso import first_vector_layers
from option_flags import OptimizerOptions
from tests.agents.every_layout import (
    ACTIONS,
    ONE_HOT,
    PARTS,
    PICTURES,
    VECTOR,
    learner_of,
    network_of,
    played,
    vectors_only,
)


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


@pytest.mark.parametrize(("parts", "name"), [("vector", "mlp"), ("vector", "separate_mlp"), ("both", "auto")])
def test_the_first_layers_follow_the_statistics_of_vectors(parts: str, name: str) -> None:
    """Once the averages have settled, new ones do not change what the network says about any state."""
    layout = replace(PICTURES, **PARTS[parts], **ACTIONS["gaussian"])
    network = network_of(layout, name=name)
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
    (layer,) = first_vector_layers(network.torso)
    (fresh,) = first_vector_layers(network_of(vectors_only).torso)
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
