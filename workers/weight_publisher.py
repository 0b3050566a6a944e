"""The learner's weights on their way into shared memory."""

from typing import Any, Protocol

import torch

from agents.flat_weights import flat_weights, weight_count, write_flat_weights
from agents.network import ActorCritic
from workers.shared_weights import SharedWeights


class Arrival(Protocol):
    """What of a CUDA event tells whether the copy has arrived that was begun before `record`."""

    def record(self) -> Any: ...

    def query(self) -> bool: ...

    def synchronize(self) -> Any: ...


class WeightPublisher:
    """Publishes the weights after each update.

    On a GPU the update is still being computed when `post` is called. The copy then follows it on the device, and is
    published when it has arrived, at the latest before the next one leaves: no update waits for the workers' sake.
    """

    def __init__(self, network: ActorCritic, weights: SharedWeights, arrival: Arrival | None) -> None:
        self._network = network
        self._weights = weights
        self._arrival = arrival
        landing_size = 0 if arrival is None else weight_count(network)
        self._landing = torch.empty(landing_size, pin_memory=landing_size > 0 and torch.cuda.is_available())
        self._under_way: int | None = None  # the version that is being copied

    def post(self, version: int) -> None:
        """Take the weights as they are after `version` updates."""
        if self._arrival is None:
            with self._weights.publishing(version) as place:
                write_flat_weights(self._network, place)
            return
        self.deliver(wait=True)
        self._landing.copy_(flat_weights(self._network), non_blocking=True)
        self._arrival.record()
        self._under_way = version

    def deliver(self, wait: bool = False) -> None:
        """Publish what has arrived; with `wait`, what is still under way, too."""
        if self._arrival is None or self._under_way is None:
            return
        if wait:
            self._arrival.synchronize()
        if self._arrival.query():
            self._weights.publish(self._under_way, self._landing)
            self._under_way = None


def make_publisher(network: ActorCritic, weights: SharedWeights, at_once: bool) -> WeightPublisher:
    """With `at_once`, weights are published before `post` returns, on any device."""
    on_gpu = network.projection.device.type == "cuda"
    return WeightPublisher(network, weights, torch.cuda.Event() if on_gpu and not at_once else None)  # type: ignore[no-untyped-call]
