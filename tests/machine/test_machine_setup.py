"""Choices for a run that depend on its options."""

import json
from typing import Any

import pytest

from machine.machine_setup import choose_slots_per_worker
from option_flags import Config

QUEUE_AND_STANDARD = json.dumps(
    [
        {"type": "queue", "capacity": 1, "sample_ratio": 0.5},
        {"type": "standard", "capacity": 100, "sample_ratio": 0.5},
    ]
)


@pytest.mark.parametrize(
    ("flags", "workers", "slots"),
    [
        ({}, 2, 1),
        ({}, 1, 2),  # there are no unrolls of other workers
        ({}, 64, 1),
        ({"batch_size": 16}, 2, 1),
        ({"batch_size": 17}, 2, 2),
        ({"batch_size": 17}, 3, 1),
        ({"envs_per_worker": 2, "batch_size": 10}, 2, 2),
        ({"batch_size": 32, "replay_parameters": QUEUE_AND_STANDARD}, 2, 1),
        ({"slots_per_worker": 3}, 2, 3),
        ({"slots_per_worker": 3, "reproducible": True}, 2, 1),
        ({"reproducible": True}, 1, 1),
    ],
)
def test_slots_per_worker_are_as_many_as_the_learner_needs(flags: dict[str, Any], workers: int, slots: int) -> None:
    assert choose_slots_per_worker(Config.from_flags(flags), workers) == slots
