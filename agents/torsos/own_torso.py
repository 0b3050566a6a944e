"""Torsos of a user's own: `--network=my_module:make_torso`, a function from the observation space to a module."""

from typing import Any

import torch
from gymnasium import Space
from torch import nn

from agents.torsos.pictures import channels_last
from options.rules import UsageError
from wrappers.any_environment.creation import import_function
from wrappers.any_environment.faults import FAILURES, last_line, traceback_of

# A scaled picture minus the background `[N, S*C, H, W]`, a normalised vector `[N, D]`, or both.
TorsoInput = torch.Tensor | tuple[torch.Tensor, torch.Tensor]
LARGEST_INPUT = 10.0  # normalised numbers are clipped to ± this
TRIAL_SIZE = 3  # observations


def is_own(name: str) -> bool:
    """Whether `--network` names a function of the user's."""
    return ":" in name


def make_own_torso(name: str, space: Space[Any], trial: TorsoInput) -> tuple[nn.Module, int]:
    """Call the function; returns the torso and F, which a trial with some observations shows."""
    flag = f"--network={name}"
    make = import_function(name, f"--network={name}")
    try:
        torso = make(space)
    except FAILURES as error:
        raise UsageError(f"{flag} failed with {last_line(error)}.", traceback_of(error)) from None
    if not isinstance(torso, nn.Module):
        raise UsageError(f"{flag} must return a torch.nn.Module, not {type(torso).__name__}.")
    return torso, _feature_count(flag, torso, trial)


def _feature_count(flag: str, torso: nn.Module, trial: TorsoInput) -> int:
    was_training = torso.training
    try:
        with torch.no_grad():
            torso.eval()(trial)  # a lazy module makes its weights now
            # Pictures and weights of convolutions have the memory format that they have in training.
            channels_last(torso)
            features = torso(trial)
        torso.train(was_training)
        buffers = [buffer.clone() for buffer in torso.buffers()]
        with torch.random.fork_rng(devices=[]):
            torso(trial)  # with gradients, as in an update
        for buffer, before in zip(torso.buffers(), buffers, strict=True):
            buffer.copy_(before)
    except FAILURES as error:
        raise UsageError(
            f"{flag}: its module failed for {TRIAL_SIZE} observations with {last_line(error)}.", traceback_of(error)
        ) from None
    if not isinstance(features, torch.Tensor):
        raise UsageError(f"{flag}: its module must return a tensor, not {type(features).__name__}.")
    if features.dim() != 2 or len(features) != TRIAL_SIZE or not features.shape[1]:
        raise UsageError(
            f"{flag}: its module must return features [N, F], [{TRIAL_SIZE}, F] for {TRIAL_SIZE} observations, not "
            f"{list(features.shape)}."
        )
    if not features.is_floating_point():
        raise UsageError(f"{flag}: its module must return floating-point numbers, not {features.dtype}.")
    if not features.isfinite().all():
        raise UsageError(f"{flag}: its module must return finite numbers.")
    return features.shape[1]
