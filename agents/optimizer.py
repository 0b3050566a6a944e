"""The optimizer, and the schedule of its learning rate."""

import math
from typing import Any

import torch
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop

from agents.gradients import trained_parameters
from option_flags import OptimizerOptions


class ScheduledOptimizer:
    """RMSProp or Adam for all parameters of a network, with a learning rate for each update.

    It calls torch's functions for the steps. torch's optimizer classes load torch's compiler, which takes as long as
    torch itself.
    """

    def __init__(self, network: torch.nn.Module, options: OptimizerOptions, schedule_updates: int) -> None:
        self._options = options
        self._schedule_updates = schedule_updates
        self._parameters = trained_parameters(network)
        # Of each parameter, in their order: its steps, and moving averages of its gradients. 0 before the first one.
        is_adam = options.optimizer == "adam"
        self._state = {
            # Adam's kernels read the number of steps on the device.
            "steps": [torch.zeros((), device=each.device if is_adam else None) for each in self._parameters],
            "squares": [torch.zeros_like(each) for each in self._parameters],
        }
        if is_adam:
            self._state["means"] = [torch.zeros_like(each) for each in self._parameters]

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

    @torch.no_grad()
    def step(self, updates: int) -> None:
        """Change the weights by their gradients, after so many updates."""
        lr, options = self.learning_rate(updates), self._options
        used = [place for place, parameter in enumerate(self._parameters) if parameter.grad is not None]
        parameters: list[torch.Tensor] = [self._parameters[place] for place in used]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        state = {name: [tensors[place] for place in used] for name, tensors in self._state.items()}
        if options.optimizer == "adam":
            adam(
                parameters,
                gradients,
                state["means"],
                state["squares"],
                [],
                state["steps"],
                fused=True,
                lr=lr,
                eps=options.adam_eps,
                beta1=0.9,
                beta2=0.999,
                weight_decay=0.0,
                amsgrad=False,
                maximize=False,
            )
            return
        # The mean square starts at 0. Without the correction, √(1 − α^t) at step t, the first steps are ten times too
        # long, which makes most features zero for good.
        correction = math.sqrt(1 - options.rmsprop_alpha ** (float(state["steps"][0]) + 1))
        rmsprop(
            parameters,
            gradients,
            state["squares"],
            [],
            [],
            state["steps"],
            lr=lr * correction,
            eps=options.rmsprop_eps,
            alpha=options.rmsprop_alpha,
            weight_decay=0.0,
            momentum=0.0,
            centered=False,
        )

    def state_dict(self) -> dict[str, Any]:
        return self._state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume the moving averages. Those of another optimizer are left out."""
        if state.keys() == self._state.keys():
            for name, own in self._state.items():
                for tensor, saved in zip(own, state[name], strict=True):
                    tensor.copy_(saved)
