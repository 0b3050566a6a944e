"""Record unrolls of real games, played as in a worker."""

import numpy as np
import torch

from agents.acting import Actor
from agents.network import ActorCritic
from option_flags import Config
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from workers.policies import LocalPolicy
from workers.rollout import Rollout, SeededEnvironment
from wrappers.atari import make_atari


def make_rollout(config: Config, layout: UnrollLayout, network: ActorCritic, environments: int) -> Rollout:
    """Real games, and the policy that plays them."""
    slots = [
        SeededEnvironment(make_atari(config.environment, 100 + number), number, np.random.default_rng(number))
        for number in range(environments)
    ]
    return Rollout(slots, LocalPolicy(Actor(network), layout, environments), layout)


def record(rollout: Rollout, layout: UnrollLayout, environments: int, unrolls: int) -> Rows:
    """At least `unrolls` unrolls, `[n, nbytes]`; all environments play equally many."""
    rows: Rows = np.zeros((-(-unrolls // environments) * environments, layout.nbytes), np.uint8)
    for start in range(0, len(rows), environments):
        rollout.collect(rows[start : start + environments])
    return rows


def record_untrained(config: Config, layout: UnrollLayout, precision: torch.dtype, unrolls: int) -> Rows:
    """Record `unrolls` unrolls with an untrained network, which plays like a random policy."""
    environments = min(unrolls, 8)
    network = ActorCritic(config.network, layout, precision)
    return record(make_rollout(config, layout, network, environments), layout, environments, unrolls)[:unrolls]
