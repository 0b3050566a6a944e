"""The optimizer, and the schedule of its learning rate."""

import math
from typing import Any

import torch

from agents.gradients import trained_parameters
from option_flags import OptimizerOptions


class ScheduledOptimizer:
    """RMSProp or Adam for all parameters of a network, with a learning rate for each update."""

    def __init__(self, network: torch.nn.Module, options: OptimizerOptions, schedule_updates: int) -> None:
        self._options = options
        self._schedule_updates = schedule_updates
        self._optimizer = _make_optimizer(network, options)

    def schedule_left(self, updates: int) -> float:
        """The fraction of the schedule that is left after so many updates."""
        return max(0.0, 1.0 - updates / self._schedule_updates)

    def learning_rate(self, updates: int) -> float:
        """Linear warm-up, then linear decay from `--lr` to `--lr_end_value` over the schedule, then constant.

        The warm-up is for games with rewards from the first step on: there the first updates all point in the same
        direction, so that values and policy overshoot at the full rate.
        """
        start, end = self._options.lr, self._options.lr_end_value
        warmup = min(self._options.lr_warmup_updates, self._schedule_updates // 10)
        warm = min(1.0, (updates + 1) / max(1, warmup))
        return float(warm * (end + (start - end) * self.schedule_left(updates)))

    def step(self, updates: int) -> None:
        """Change the weights by their gradients, after so many updates."""
        self._set_step_size(self.learning_rate(updates))
        self._optimizer.step()

    def _set_step_size(self, learning_rate: float) -> None:
        """Set the length of the next step; for RMSProp, with the bias correction of its mean square.

        The mean square starts at 0. Without the correction, √(1 − α^t) at step t, the first steps are ten times too
        long, which makes most features zero for good.
        """
        correction = 1.0
        if self._options.optimizer == "rmsprop":
            steps = float(next((state["step"] for state in self._optimizer.state.values()), 0))  # made so far
            correction = math.sqrt(1 - self._options.rmsprop_alpha ** (steps + 1))
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate * correction

    def state_dict(self) -> dict[str, Any]:
        return self._optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume the moving averages with this optimizer's own options. Those of another optimizer are left out."""
        own = self._optimizer.state_dict()
        if ("alpha" in own["param_groups"][0]) == ("alpha" in state["param_groups"][0]):
            self._optimizer.load_state_dict({**own, "state": state["state"]})


def _make_optimizer(network: torch.nn.Module, options: OptimizerOptions) -> torch.optim.Optimizer:
    parameters = trained_parameters(network)
    if options.optimizer == "adam":
        return torch.optim.Adam(parameters, options.lr, eps=options.adam_eps, fused=True)
    return torch.optim.RMSprop(parameters, options.lr, options.rmsprop_alpha, options.rmsprop_eps)
