"""What moves between a GPU and the rest of a run: weights, batches, and the actions of the inference server."""

import numpy as np
import torch

from agents.acting import Actor, flat_weights, load_flat_weights, weight_count
from tests.agents.every_layout import PICTURES, network_of
from tests.workers.test_inference_server import collect, running_server
from tests.workers.test_rollout import make_environment
from training.make_replays import uploader
from workers.rollout import Rollout
from workers.shared_weights import NewestWeights, SharedWeights, make_publisher, pin

GPU = torch.device("cuda", 0)
CYCLES = 400_000_000  # of the GPU: a fifth of a second


def test_weights_are_published_as_they_were_when_the_copy_was_asked_for() -> None:
    """The GPU is busy when the copy is asked for, and the weights change before it can begin."""
    network = network_of(PICTURES).to(GPU)
    weights = SharedWeights(weight_count(network))
    publisher = make_publisher(network, weights, at_once=False)
    zeros = torch.zeros(weight_count(network), device=GPU)
    before, copy = flat_weights(network), torch.zeros(weight_count(network))
    publisher.post(0)  # so that all kernels are loaded, for which CUDA waits
    load_flat_weights(network, zeros)
    load_flat_weights(network, before)
    publisher.deliver(wait=True)
    torch.cuda._sleep(CYCLES)  # type: ignore[no-untyped-call]
    publisher.post(1)
    load_flat_weights(network, zeros)
    publisher.deliver()
    assert weights.copy_newer(0, copy) == 0, "the GPU has not begun with the copy"
    publisher.deliver(wait=True)
    assert weights.copy_newer(0, copy) == 1
    assert torch.equal(copy, before.cpu())


def test_a_batch_copied_ahead_of_time_arrives_while_the_gpu_computes() -> None:
    upload = uploader(GPU)
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(20):
        rows = torch.from_numpy(rng.integers(0, 256, (64, 100_000), np.uint8)).pin_memory()
        torch.cuda._sleep(CYCLES // 100)  # type: ignore[no-untyped-call]
        uploaded = upload(rows)
        assert uploaded is not None
        kept.append((rows, (uploaded.int() + 1)))
        del uploaded  # torch may reuse its memory, but not before the line above was computed
    for rows, found in kept:
        assert torch.equal(found.cpu(), rows.int() + 1)


def test_the_inference_server_chooses_the_actions_of_a_worker() -> None:
    with running_server(lstm_size=8, device=GPU) as served:
        rollouts = [
            Rollout([make_environment(e, False) for e in range(3)], policy, served.layout)
            for policy in (served.local(), served.remote())
        ]
        for _ in range(3):
            expected, found = (collect(rollout, served.layout) for rollout in rollouts)
            for name in expected:
                np.testing.assert_allclose(
                    found[name].astype(float), expected[name].astype(float), rtol=1e-2, atol=1e-3, err_msg=name
                )


def test_an_actor_on_a_gpu_takes_new_weights() -> None:
    learner, actor = network_of(PICTURES, seed=1), Actor(network_of(PICTURES, seed=2).to(GPU))
    weights = SharedWeights(weight_count(learner))
    newest = NewestWeights(weights, actor, GPU)
    for version in range(3):
        load_flat_weights(learner, torch.randn(weight_count(learner)))
        weights.publish(version, flat_weights(learner))
        assert newest.load() == version
        assert torch.equal(flat_weights(actor._network).cpu(), flat_weights(learner))


def test_memory_that_cuda_does_not_register_is_copied_to_all_the_same() -> None:
    """It refuses memory that is registered already."""
    network = network_of(PICTURES).to(GPU)
    weights = SharedWeights(weight_count(network))
    pin(weights.buffers.array)
    publisher = make_publisher(network, weights, at_once=False)
    publisher.post(1)
    publisher.deliver(wait=True)
    copy = torch.zeros(weight_count(network))
    assert weights.copy_newer(0, copy) == 1
    assert torch.equal(copy, flat_weights(network).cpu())
