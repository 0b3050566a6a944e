"""Choices for a run that depend on its options."""

import json
from typing import Any

import pytest
import torch

import machine.machine_setup
from machine.machine_setup import choose_slots_per_worker, settle_settings
from option_flags import Config, preset

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
        ({"batch_size": 18}, 2, 2),
        ({"batch_size": 18}, 3, 1),
        ({"envs_per_worker": 2, "batch_size": 10}, 2, 2),
        ({"batch_size": 16, "replay_parameters": QUEUE_AND_STANDARD}, 2, 1),
        ({"slots_per_worker": 3}, 2, 3),
        ({"slots_per_worker": 3, "reproducible": True}, 2, 1),
        ({"reproducible": True}, 1, 1),
    ],
)
def test_slots_per_worker_are_as_many_as_the_learner_needs(flags: dict[str, Any], workers: int, slots: int) -> None:
    assert choose_slots_per_worker(Config.from_flags(flags), workers) == slots


@pytest.mark.parametrize(("device", "chosen"), [("cpu", "auto"), ("cuda", "atari_gpu")])
def test_a_gpu_gets_settings_of_its_own(device: str, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.machine_setup, "choose_device", lambda name: torch.device(device))
    given: dict[str, Any] = {"env": "PongNoFrameskip-v4", "seed": 3}
    config, notes = settle_settings(Config.from_flags(given), given, "standard")
    assert (config.run.settings, config.seed) == (chosen, 3)
    assert [note for note in notes if "--settings=standard" in note] == (notes if device == "cuda" else [])
    assert bool(notes) == (device == "cuda")


def test_amd_gpus_keep_the_standard_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine.machine_setup, "choose_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert settle_settings(Config(), {}, "standard") == (Config(), [])


def test_flags_that_are_given_keep_the_standard_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.machine_setup, "choose_device", lambda name: torch.device("cuda"))
    given: dict[str, Any] = {"batch_size": 8}
    config, notes = settle_settings(Config.from_flags(given), given, "standard")
    assert config == Config.from_flags(given)
    assert len(notes) == 1
    assert "because --batch_size is given" in notes[0]
    config = Config.from_flags({"settings": "standard"})
    assert settle_settings(config, {"settings": "standard"}, "standard") == (config, [])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_other_environments_get_the_settings_for_their_kind(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On each machine; flags that are given beat them, and so does a name of settings."""
    monkeypatch.setattr(machine.machine_setup, "choose_device", lambda name: torch.device(device))
    given: dict[str, Any] = {"env": "CartPole-v1", "lr": 0.25}
    config, notes = settle_settings(Config.from_flags(given), given, "numbers")
    assert config.run.settings == "numbers" and config.optimizer.lr == 0.25
    assert config.loss.impact_uses == preset("settings", "numbers")["impact_uses"]
    assert len(notes) == 1 and "settings: numbers, for observations without a picture" in notes[0]
    for other in ({"settings": "standard"}, {"learners": 2}, {"learners": 0}):
        config = Config.from_flags(given | other)
        assert settle_settings(config, given | other, "numbers") == (config, [])
