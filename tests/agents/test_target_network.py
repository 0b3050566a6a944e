"""IMPACT's target network computes what it says of a batch once, not at every use of it."""

import dataclasses
from collections.abc import Iterator
from copy import deepcopy

import pytest

from agents.learner import Learner
from option_flags import LossOptions
from options.learning_options import BatchUses
from replay.mix import Batch, BatchMix, Replay
from replay.queue import QueueReplay
from tests.agents.learners import LAYOUT, make_batch, make_learner, weights_of
from tests.agents.same_updates import OPTIMIZERS, assert_same_learner
from tests.agents.test_cuda_graphs import record
from tests.agents.test_impact import IMPACT

SHARE = 2


def options_of(batches: int, uses: int, period: int) -> LossOptions:
    return dataclasses.replace(IMPACT, impact_batches=batches, impact_uses=uses, impact_target_period=period)


def drawn_batches(uses: BatchUses, others: tuple[Replay, ...] = ()) -> Iterator[Batch]:
    """The batches of a run without end, from random unrolls."""
    mix = BatchMix((QueueReplay(SHARE, SHARE, LAYOUT.nbytes, uses.uses, uses.first_uses), *others), LAYOUT)
    updates = seed = 0
    while True:
        while not mix.ready():
            seed += 1
            for row in make_batch([True], seed=seed).rows.numpy():
                mix.add(row)
        yield mix.mix(updates)
        updates += 1


def counting(learner: Learner) -> list[int]:
    """The number of unrolls of each pass of the target network, from now on."""
    passes: list[int] = []
    assert learner._target is not None
    learner._target.network.register_forward_hook(lambda _, inputs, output: passes.append(output.values.shape[1]))
    return passes


def assert_same_weights(learner: Learner, other: Learner) -> None:
    for weights, expected in zip(weights_of(learner), weights_of(other), strict=True):
        assert (weights == expected).all()


# A batch is used in turns of `batches` updates, so its uses between two copies of the network cost one pass.
@pytest.mark.parametrize(
    ("batches", "uses", "period", "updates", "passes"),
    [
        (4, 2, 8, 40, 30),  # of the four batches of a turn, two are used again in the same period
        (8, 8, 64, 128, 30),  # MuJoCo's preset
        (1, 3, 6, 12, 6),
        (1, 3, 2, 12, 8),
        (3, 2, 1, 12, 12),  # a copy at every update: nothing can be kept
        (3, 1, 5, 12, 12),  # no batch is used twice
    ],
)
@pytest.mark.slow
def test_a_batch_is_computed_once_in_each_period_and_no_bit_changes(
    batches: int, uses: int, period: int, updates: int, passes: int
) -> None:
    options = options_of(batches, uses, period)
    learner, control = make_learner(options), make_learner(options)
    counted, all_passes = counting(learner), counting(control)
    for _, batch in zip(range(updates), drawn_batches(options.batch_uses), strict=False):
        learner.update(batch)
        control.update(batch._replace(draws=()))  # nothing is known about its earlier uses
    assert counted == [SHARE] * passes
    assert all_passes == [SHARE] * updates
    assert_same_weights(learner, control)


@pytest.mark.slow
def test_recorded_updates_keep_nothing_of_a_batch() -> None:
    options = options_of(1, 3, 6)
    recorded, plain = (make_learner(options, OPTIMIZERS[0], record=one) for one in (record, None))
    counted = counting(recorded)
    for _, batch in zip(range(24), drawn_batches(options.batch_uses), strict=False):
        recorded.update(batch)
        plain.update(batch)
    assert len(counted) == 25, "and one for the recording"
    assert_same_learner(recorded, plain)


def test_a_mixed_batch_is_always_computed() -> None:
    """Its other part is another one at every use."""
    options = options_of(2, 2, 100)
    learner = make_learner(options)
    counted = counting(learner)
    other = QueueReplay(SHARE, SHARE, LAYOUT.nbytes, 2, (1, 2))
    assert other.is_fresh
    for _, batch in zip(range(6), drawn_batches(options.batch_uses, (other,)), strict=False):
        learner.update(batch)
    assert counted == [2 * SHARE] * 6


def test_a_resumed_run_computes_anew_what_is_not_saved() -> None:
    options = options_of(2, 4, 100)
    learner, resumed = make_learner(options), make_learner(options)
    batches = drawn_batches(options.batch_uses)
    for _, batch in zip(range(5), batches, strict=False):
        learner.update(batch)
    resumed.update(batch)  # something that must be forgotten
    resumed.load_state_dict(deepcopy(learner.state_dict()))
    counted, again = counting(learner), counting(resumed)
    for _, batch in zip(range(7), batches, strict=False):
        learner.update(batch)
        resumed.update(batch)
    assert len(counted) < len(again) < 7
    assert_same_weights(learner, resumed)
