"""The mix that the options ask for."""

import json
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from agents.network import ActorCritic
from option_flags import Config
from options.replay_options import ReplaySpec
from replay.unroll_layout import UnrollLayout
from tests.training.some_run import some_run
from training.make_replays import distance_of_unrolls, make_mix

LAYOUT = UnrollLayout(unroll_length=3, frame_stack=1, frame_shape=(1, 36, 36), action_sizes=(3,), feature_size=4)


@pytest.mark.parametrize("caching", [False, True])
def test_candidates_are_ranked_by_the_weights_after_the_latest_update(tmp_path: Path, caching: bool) -> None:
    replay = {
        **{"type": "elite", "capacity": 20, "sample_ratio": 1.0},
        **{"dist_function": "kl_div", "lambda_batch_multiplier": 3.0},
    }
    config = Config().replace_flags(
        seed=1, batch_size=4, caching=caching, replay_parameters=json.dumps([replay]), training_fill_in_factor=1.0
    )
    torch.manual_seed(0)
    first = ActorCritic(config.network, LAYOUT, torch.float32)
    torch.nn.init.orthogonal_(first.policy_head.weight)
    second = deepcopy(first)
    torch.nn.init.orthogonal_(second.policy_head.weight)
    rng = np.random.default_rng(0)
    rows = np.zeros((20, LAYOUT.nbytes), np.uint8)
    LAYOUT.array(rows, "frames")[:] = rng.integers(0, 256, LAYOUT.array(rows, "frames").shape)

    def distance(at_first: torch.nn.Module) -> float:
        """Of the candidates of the first batch, with `second`'s weights at the time when it is drawn."""
        learner: Any = SimpleNamespace(network=deepcopy(at_first), device=torch.device("cpu"), updates=0)
        mix = make_mix(some_run(tmp_path, config=config, layout=LAYOUT, learner=learner))
        learner.network.load_state_dict(second.state_dict())
        while not mix.ready():
            for row in rows[: mix.unrolls_accepted()]:
                mix.add(row)
        drawn = mix.mix(0).draws[0].distance_candidates
        mix.close()
        assert drawn is not None
        return drawn

    assert distance(first) == distance(second) > 0.0


def test_random_distances_depend_on_the_generator_only() -> None:
    """They are uniform in [0, 1), and a restored generator repeats them."""
    entry = ReplaySpec("elite", 9, 1.0, dist_function="random")
    network = ActorCritic(Config().network, LAYOUT, torch.float32)
    rng, rows = np.random.default_rng(0), np.zeros((2_000, 3), np.uint8)
    distance, state = distance_of_unrolls(entry, network, LAYOUT, None, rng), rng.bit_generator.state
    numbers = distance(rows)
    assert numbers.shape == (2_000,) and numbers.min() >= 0 and numbers.max() < 1 and abs(numbers.mean() - 0.5) < 0.03
    rng.bit_generator.state = state
    np.testing.assert_array_equal(distance(rows), numbers)
