"""The updates that a learner makes on a GPU are those that it makes on a CPU."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from agents.acting import flat_weights
from agents.gradients import Recording, record_on_gpu
from agents.learner import Learner
from agents.network import ActorCritic
from option_flags import LossOptions, NetworkOptions, OptimizerOptions
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout
from tests.agents.every_layout import PICTURES, every_layout, learner_of, network_of, played
from tests.agents.learners import (
    DELAYED_LAYOUT,
    LAYOUT,
    LSTM_LAYOUT,
    gradients,
    make_batch,
    make_learner,
    reported,
)
from tests.agents.same_updates import LOSSES, MIXED, OPTIMIZERS, tensors_of
from tests.agents.test_cuda_graphs import PLACED

DEVICES = ("cuda:0", "cpu")


class Recorder:
    """Records on the GPU, and counts."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, compute: Callable[[], Any]) -> Recording[Any]:
        self.count += 1
        return record_on_gpu(compute)


ATARI = UnrollLayout(unroll_length=20, frame_stack=4, frame_shape=(1, 84, 84), action_sizes=(6,))


def assert_close_updates(learners: list[Learner], batches: list[Batch], distance: float = 2e-3) -> None:
    """Figures, weights, statistics and the optimizer's state, but for the rounding of another order of summation.

    RMSprop divides gradients by their size, so the rounding of small ones grows from update to update.
    """
    for batch in batches:
        figures, expected = (reported(learner, batch) for learner in learners)
        assert figures == pytest.approx(expected, rel=distance, abs=2e-4, nan_ok=True)
    found, wanted = (tensors_of(learner.state_dict()) for learner in learners)
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        apart = float((found[name].cpu().double() - tensor.cpu().double()).norm())
        assert apart <= distance * float(tensor.double().norm()) + 1e-5 * tensor.numel() ** 0.5, name


@pytest.mark.parametrize("layout", [LAYOUT, LSTM_LAYOUT, DELAYED_LAYOUT], ids=["plain", "lstm", "delayed"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["rmsprop", "adam"])
def test_all_losses_and_optimizers(optimizer: OptimizerOptions, loss: LossOptions, layout: UnrollLayout) -> None:
    learners = [make_learner(loss, optimizer, layout, device=device) for device in DEVICES]
    assert_close_updates(learners, [make_batch(MIXED, layout, seed) for seed in range(3)])


@every_layout
def test_all_observations_and_actions(layout: UnrollLayout) -> None:
    learners = [learner_of(layout, optimizer=OPTIMIZERS[1], device=device) for device in DEVICES]
    assert_close_updates(learners, [played(layout, network_of(layout, seed=1), 6, seed) for seed in range(3)])


@pytest.mark.parametrize("name", ["nature", "nature_norm", "nature_small", "impala_shallow", "impala_deep", "conv3"])
def test_all_networks_for_atari(name: str) -> None:
    learners = [learner_of(ATARI, LossOptions(), OPTIMIZERS[0], name, device) for device in DEVICES]
    assert_close_updates(learners, [make_batch([True] * 4, ATARI, seed) for seed in range(2)])


@pytest.mark.parametrize("name", ["nature", "impala_deep"])
def test_gradients_in_bfloat16_point_where_those_in_float32_do(name: str) -> None:
    """Those of a CPU in bfloat16 are as far from them."""

    def learner(device: str, dtype: torch.dtype) -> Learner:
        network = network_of(ATARI, dtype=dtype, name=name)
        return Learner(network, ATARI, LossOptions(), OptimizerOptions(), 100, torch.device(device))

    batch = make_batch([True] * 4, ATARI)
    found = []
    for one in (learner("cpu", torch.float32), learner("cpu", torch.bfloat16), learner("cuda:0", torch.bfloat16)):
        one.update(batch)
        found.append(torch.cat([gradient.reshape(-1).cpu().double() for gradient in gradients(one).values()]))
    exact, on_cpu, on_gpu = found
    distances = [float((one - exact).norm() / exact.norm()) for one in (on_cpu, on_gpu)]
    assert distances[1] < 0.1, distances
    assert distances[1] < 2 * distances[0] + 0.01, distances


def test_popart() -> None:
    learners = []
    for device in DEVICES:
        torch.manual_seed(0)
        network = ActorCritic(NetworkOptions(network="impala_shallow", popart=True), LSTM_LAYOUT, torch.float32)
        loss = dataclasses.replace(LOSSES["mean"])
        learners.append(Learner(network, LSTM_LAYOUT, loss, OPTIMIZERS[1], 100, torch.device(device)))
    assert_close_updates(learners, [make_batch(MIXED, LSTM_LAYOUT, seed) for seed in range(3)])


@pytest.mark.parametrize("layout", [ATARI, dataclasses.replace(ATARI, lstm_size=16)], ids=["plain", "lstm"])
def test_repeatable_updates_are_equal_bit_for_bit(layout: UnrollLayout) -> None:
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    weights = []
    for _ in range(2):
        learner = learner_of(layout, LossOptions(), OptimizerOptions(), "nature", "cuda:0")
        for seed in range(5):
            learner.update(make_batch([True] * 4, layout, seed))
        weights.append(flat_weights(learner.network))
    assert torch.equal(*weights)


@pytest.mark.parametrize("layout", [LAYOUT, LSTM_LAYOUT, DELAYED_LAYOUT], ids=["plain", "lstm", "delayed"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_recorded_updates_are_those_that_are_not(loss: LossOptions, layout: UnrollLayout) -> None:
    """Two orders of fresh and replayed unrolls, and weights of the loss and learning rates that change."""
    loss = dataclasses.replace(loss, entropy_loss_end_weight=0.0)
    said: list[str] = []
    recorder = Recorder()
    learners = [
        make_learner(loss, OPTIMIZERS[0], layout, 20, device="cuda:0", announce=said.append, record=record)
        for record in (recorder, None)
    ]
    orders = [MIXED, MIXED[::-1]]
    assert_close_updates(learners, [make_batch(orders[seed % 2], layout, seed) for seed in range(16)])
    assert not said and recorder.count == 2


@every_layout
def test_all_observations_and_actions_can_be_recorded(layout: UnrollLayout) -> None:
    said: list[str] = []
    recorder = Recorder()
    learners = [
        learner_of(layout, optimizer=OPTIMIZERS[1], device="cuda:0", announce=said.append, record=record)
        for record in (recorder, None)
    ]
    assert_close_updates(learners, [played(layout, network_of(layout, seed=1), 6, seed) for seed in range(8)])
    assert not said and recorder.count == 1


@pytest.mark.parametrize("name", ["nature", "nature_norm", "nature_small", "impala_shallow", "impala_deep", "conv3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_all_networks_for_atari_can_be_recorded(name: str, dtype: torch.dtype) -> None:
    said: list[str] = []
    recorder = Recorder()
    learners = []
    for record in (recorder, None):
        network = network_of(ATARI, dtype=dtype, name=name)
        learners.append(Learner(network, ATARI, LossOptions(), OPTIMIZERS[0], 100, torch.device("cuda:0")))
        if record is not None:
            learners[-1].record(record, said.append)
    assert_close_updates(learners, [make_batch([True] * 4, ATARI, seed) for seed in range(6)], distance=2e-2)
    assert not said and recorder.count == 1


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["rmsprop", "adam"])
def test_networks_of_users_can_be_recorded(optimizer: OptimizerOptions) -> None:
    said: list[str] = []
    recorder = Recorder()
    clipped = dataclasses.replace(optimizer, gradient_clip_by_norm_threshold=0.01)
    learners = [
        learner_of(PICTURES, optimizer=clipped, name=PLACED, device="cuda:0", announce=said.append, record=record)
        for record in (recorder, None)
    ]
    assert_close_updates(learners, [played(PICTURES, network_of(PICTURES), 6, seed) for seed in range(8)])
    assert not said and recorder.count == 1


def test_what_cannot_be_recorded_is_computed_and_it_is_said_once() -> None:
    """A layer that waits for the GPU, as a user's torso may."""
    said: list[str] = []
    recorder = Recorder()
    recorded, plain = (
        learner_of(ATARI, LossOptions(), OPTIMIZERS[0], "nature", "cuda:0", announce=said.append, record=record)
        for record in (recorder, None)
    )

    def wait(*_: object) -> None:
        float(recorded.network.background.sum())

    recorded.network.torso.register_forward_hook(wait)
    assert_close_updates([recorded, plain], [make_batch([True] * 4, ATARI, seed) for seed in range(8)])
    assert len(said) == 1 and said[0].startswith("an update cannot be recorded as a CUDA graph (")
    assert recorder.count == 1
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_weights_that_are_loaded_after_the_recording_are_used() -> None:
    learners = [
        learner_of(ATARI, LossOptions(), OPTIMIZERS[0], "nature", "cuda:0", record=record)
        for record in (record_on_gpu, None)
    ]
    batches = [make_batch([True] * 4, ATARI, seed) for seed in range(6)]
    start = copy.deepcopy(learners[0].state_dict())
    assert_close_updates(learners, batches)
    for learner in learners:
        learner.load_state_dict(copy.deepcopy(start))
    assert_close_updates(learners, batches)
