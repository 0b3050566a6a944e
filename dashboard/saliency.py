"""Saliency: how much policy and value change when a small part of an observation is blurred.

The method of Greydanus et al. (2018, arXiv 1711.00138). It needs no gradients, so it works for every network.
"""

from collections.abc import Callable
from typing import NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from agents.distributions import PolicyDistribution

Pixels = NDArray[np.uint8]  # [H, W, C]
Maps = NDArray[np.float32]
# Observations [N, H, W, C] uint8 → the policies' parameters [N, P], and values [N].
Evaluate = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]

CELLS = 14  # places in a row and in a column, for any size of the observation
AT_ONCE = 49  # observations in one forward pass
POLICY_COLOUR, VALUE_COLOUR = (230, 159, 0), (0, 114, 178)  # RGB


class Saliency(NamedTuple):
    """Both `[CELLS, CELLS]`, from 0 on."""

    policy: Maps  # KL divergence from the policy of the whole observation to that of the blurred one
    value: Maps  # absolute difference of the values


def saliency(distribution: PolicyDistribution, observation: Pixels, evaluate: Evaluate) -> Saliency:
    """Blur each place of the observation `[H, W, C]` in turn."""
    logits, values = evaluate(torch.from_numpy(observation[None]))
    policies, differences = [], []
    variants = _blurred_variants(observation)
    for start in range(0, len(variants), AT_ONCE):
        changed_logits, changed_values = evaluate(torch.from_numpy(variants[start : start + AT_ONCE]))
        policies.append(distribution.kl_divergence(logits.expand_as(changed_logits), changed_logits))
        differences.append((changed_values - values).abs())
    shape = CELLS, CELLS
    return Saliency(
        torch.cat(policies).clamp(min=0).reshape(shape).float().numpy(),
        torch.cat(differences).reshape(shape).float().numpy(),
    )


def _blurred_variants(observation: Pixels) -> Pixels:
    """The observation with one place blurred in each copy, `[CELLS², H, W, C]`."""
    height, width, channels = observation.shape
    sigma = 0.6 * max(height, width) / CELLS
    blurred = cv2.GaussianBlur(observation, (0, 0), 2 * sigma).reshape(observation.shape).astype(np.float32)
    rows, columns = np.arange(height, dtype=np.float32), np.arange(width, dtype=np.float32)
    down = [np.exp(-((rows - (i + 0.5) * height / CELLS) ** 2) / (2 * sigma**2)) for i in range(CELLS)]
    across = [np.exp(-((columns - (i + 0.5) * width / CELLS) ** 2) / (2 * sigma**2)) for i in range(CELLS)]
    difference = blurred - observation
    variants = np.empty((CELLS * CELLS, height, width, channels), np.uint8)
    for index in range(CELLS * CELLS):
        mask = np.outer(down[index // CELLS], across[index % CELLS])[..., None]
        variants[index] = np.rint(observation + mask * difference)
    return variants


def overlay(maps: Saliency, height: int, width: int) -> Pixels:
    """A picture `[height, width, 4]` to lay over the observation: policy in orange, value in blue."""
    colours = np.zeros((height, width, 3), np.float32)
    opacity = np.zeros((height, width), np.float32)
    for map_, colour in ((maps.policy, POLICY_COLOUR), (maps.value, VALUE_COLOUR)):
        strength = cv2.resize(map_ / max(float(map_.max()), 1e-9), (width, height), interpolation=cv2.INTER_CUBIC)
        strength = np.clip(strength, 0, 1)
        colours += strength[..., None] * np.array(colour, np.float32)
        opacity += strength
    picture = np.zeros((height, width, 4), np.uint8)
    picture[..., :3] = colours / np.maximum(opacity, 1e-6)[..., None]
    picture[..., 3] = 255 * np.clip(opacity, 0, 1)
    return picture
