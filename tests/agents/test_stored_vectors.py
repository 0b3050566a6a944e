"""Unrolls that store vectors in a small type are learned from and ranked exactly as those that store float32."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.learner import Learner
from agents.network import ActorCritic
from agents.ranking import NetworkRanking
from option_flags import NetworkOptions, OptimizerOptions
from options.replay_options import ReplaySpec
from replay.mix import Batch
from replay.newest_states import NewestStates
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from tests.agents.learners import ALL_TERMS

STEPS, UNROLLS = 4, 6
SMALL = UnrollLayout(
    unroll_length=STEPS,
    frame_stack=2,
    frame_shape=(1, 12, 12),
    action_sizes=(3,),
    feature_size=3,
    vector_size=12,
    one_hot_size=7,
    vector_dtype="int16",
)
FLOAT = replace(SMALL, vector_dtype="float32")


def unrolls(layout: UnrollLayout) -> Rows:
    """The same random unrolls in either layout."""
    rng = np.random.default_rng(0)
    rows = np.zeros((UNROLLS, layout.nbytes), np.uint8)
    fields = layout.arrays(rows)
    fields["frames"][:] = rng.integers(0, 256, fields["frames"].shape)
    for name in ("rewards", "behaviour_logits", "values", "features"):
        fields[name][:] = rng.normal(size=fields[name].shape)
    fields["actions"][:] = rng.integers(0, 3, fields["actions"].shape)
    fields["dones"][:] = rng.random(fields["dones"].shape) < 0.2
    fields["environment_id"][:] = np.arange(UNROLLS) // 2
    states = (UNROLLS, STEPS + 1)
    vectors = [
        rng.integers(0, 256, (*states, 2)),
        rng.integers(-300, 300, (*states, 3)),
        rng.integers(0, 2, (*states, 7)),
    ]
    fields["vectors"][:] = np.concatenate(vectors, -1)
    return rows


def network_of(layout: UnrollLayout) -> ActorCritic:
    torch.manual_seed(0)
    network = ActorCritic(NetworkOptions(), layout, torch.float32)
    torch.nn.init.normal_(network.policy_head.weight, std=0.3)
    return network


def test_updates_are_equal_bit_for_bit() -> None:
    found = []
    for layout in (SMALL, FLOAT):
        network = network_of(layout)
        learner = Learner(network, layout, ALL_TERMS, OptimizerOptions(), 100, torch.device("cpu"))
        batch = Batch(torch.from_numpy(unrolls(layout)), np.arange(UNROLLS) % 2 == 0)
        reports = [learner.update(batch) for _ in range(3)]
        found.append(([float(report["total_loss"]) for report in reports], network.state_dict()))
    (losses, weights), (expected_losses, expected) = found
    assert losses == expected_losses and len(set(losses)) == 3
    assert weights["vector_mean"].count_nonzero() == 5
    for name, numbers in expected.items():
        assert torch.equal(weights[name], numbers), name


@pytest.mark.parametrize("distance", ["ln_norm", "kl_div"])
def test_distances_are_equal_bit_for_bit(distance: str) -> None:
    found = []
    for layout in (SMALL, FLOAT):
        options = ReplaySpec("attentive", capacity=10, sample_ratio=1.0, dist_function=distance)
        ranking = NetworkRanking(network_of(layout), layout, options)
        rows, newest = unrolls(layout), NewestStates(layout)
        for row in rows:
            newest.observe(row)
        found.append((ranking.drift(rows), ranking.distance_to_newest(rows, newest.states())))
    for distances, expected in zip(*found, strict=True):
        np.testing.assert_array_equal(distances, expected)
        assert len(set(distances.tolist())) == UNROLLS
