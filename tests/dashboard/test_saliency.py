"""Saliency shows where the policy and the value look."""

import numpy as np
import torch

from agents.distributions import one_choice
from dashboard.saliency import CELLS, POLICY_COLOUR, VALUE_COLOUR, Saliency, overlay, saliency


def test_only_the_places_that_policy_and_value_look_at_are_salient() -> None:
    """A policy that looks at one corner, and a value that looks at the opposite one."""
    observation = np.random.default_rng(0).integers(0, 256, (84, 84, 4), dtype=np.uint8)
    observation[:18, :18], observation[-18:, -18:] = 0, 0
    observation[:6, :6], observation[-6:, -6:] = 255, 255

    def evaluate(observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = observations.float()
        corner = pixels[:, :6, :6].mean(dim=(1, 2, 3)) / 64
        return torch.stack([corner, -corner], dim=1), pixels[:, -6:, -6:].mean(dim=(1, 2, 3))

    maps = saliency(one_choice(2), observation, evaluate)
    assert maps.policy.shape == maps.value.shape == (CELLS, CELLS)
    assert maps.policy.argmax() == 0, "the first place of the first row"
    assert maps.value.argmax() == CELLS * CELLS - 1
    assert maps.policy[CELLS // 2 :, CELLS // 2 :].max() < 1e-6 < maps.policy[0, 0]
    assert maps.value[: CELLS // 2, : CELLS // 2].max() < 1e-6 < maps.value[-1, -1]


def test_the_overlay_shows_policy_and_value_in_their_colours() -> None:
    policy, value = np.zeros((CELLS, CELLS), np.float32), np.zeros((CELLS, CELLS), np.float32)
    policy[0, 0], value[-1, -1] = 3.0, 0.5
    picture = overlay(Saliency(policy, value), 42, 84)
    assert picture.shape == (42, 84, 4)
    assert tuple(picture[0, 0]) == (*POLICY_COLOUR, 255) and tuple(picture[-1, -1]) == (*VALUE_COLOUR, 255)
    assert picture[20, 40, 3] == 0
    assert overlay(Saliency(0 * policy, 0 * value), 10, 10)[..., 3].max() == 0
