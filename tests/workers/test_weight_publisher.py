"""Weights are published at once, or when their copy is complete."""

import torch

from agents.acting import flat_weights, load_flat_weights, weight_count
from agents.network import ActorCritic
from tests.agents.networks import picture_network
from workers.shared_weights import NOT_PUBLISHED, SharedWeights, WeightPublisher, make_publisher


class Copying:
    """A copy event that is complete when the test sets `done`."""

    done = True

    def record(self) -> None:
        self.done = False

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self.done = True


def make_network(value: float) -> ActorCritic:
    network = picture_network("impala_shallow", (1, 36, 36), 3)
    load_flat_weights(network, torch.full((weight_count(network),), value))
    return network


def published(weights: SharedWeights, size: int) -> tuple[int, float]:
    """The newest version, and the one value that all of its weights have."""
    copy = torch.zeros(size)
    version = weights.copy_newer(NOT_PUBLISHED, copy)
    assert (copy == copy[0]).all()
    return version, float(copy[0])


def test_on_a_cpu_weights_are_published_at_once() -> None:
    network = make_network(3.0)
    weights = SharedWeights(weight_count(network))
    publisher = make_publisher(network, weights, at_once=False)
    publisher.post(7)
    publisher.deliver()
    assert published(weights, weight_count(network)) == (7, 3.0)


def test_a_copy_is_published_when_it_is_complete_or_before_the_next_one_starts() -> None:
    network, copying = make_network(1.0), Copying()
    size = weight_count(network)
    weights = SharedWeights(size)
    publisher = WeightPublisher(network, weights, copying)
    publisher.deliver()
    publisher.post(1)
    publisher.deliver()
    assert published(weights, size)[0] == NOT_PUBLISHED
    copying.done = True
    publisher.deliver()
    assert published(weights, size) == (1, 1.0)

    load_flat_weights(network, torch.full((size,), 2.0))
    publisher.post(2)
    load_flat_weights(network, torch.full((size,), 3.0))
    assert published(weights, size) == (1, 1.0)
    publisher.post(3)
    assert published(weights, size) == (2, 2.0)
    publisher.deliver(wait=True)
    assert published(weights, size) == (3, 3.0)
    assert torch.equal(flat_weights(network), torch.full((size,), 3.0))
