"""Acting: a copy of the network chooses actions. It takes new weights as one vector."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from agents.network import ActorCritic, NetworkInput
from agents.torsos.pictures import channels_last
from replay.unroll_layout import UnrollLayout


@dataclass
class ActorState:
    """The inputs of the network besides the observations, for E environments."""

    lstm_state: torch.Tensor  # [E, 2, L]
    previous_actions: torch.Tensor  # [E, ...]; `no_action` at an episode start
    previous_rewards: torch.Tensor  # [E] float32, 0 at an episode start
    no_action: float | torch.Tensor = -1  # of the layout; for `restart`

    @classmethod
    def at_start(cls, environments: int, layout: UnrollLayout) -> "ActorState":
        no_action = torch.from_numpy(layout.no_action)
        return cls(
            lstm_state=torch.zeros(environments, 2, layout.lstm_size),
            previous_actions=no_action.repeat(environments, *(1,) * no_action.dim()),
            previous_rewards=torch.zeros(environments),
            no_action=no_action,
        )

    def restart(self, environment: int) -> None:
        """Reset one environment after the end of an episode."""
        self.lstm_state[environment] = 0
        self.previous_actions[environment] = self.no_action
        self.previous_rewards[environment] = 0


class Decision(NamedTuple):
    """Actions for E environments, with the outputs of the network that unrolls store."""

    actions: torch.Tensor  # [E, ...] int64, or float32 for real-valued actions
    logits: torch.Tensor  # [E, P]
    values: torch.Tensor  # [E]
    features: torch.Tensor  # [E, projected] float16
    lstm_state: torch.Tensor  # [E, 2, L]


class Actor:
    """A copy of the policy that acts and does not learn, on the device of the network."""

    def __init__(self, network: ActorCritic) -> None:
        self.distribution = network.distribution
        self._network = channels_last(network.eval().requires_grad_(False))
        if network.compute_dtype == torch.bfloat16 and not network.has_own_torso:
            # Once, instead of at every step by autocast, which does not round the weights of other layers.
            for layer in self._network.torso.modules():
                if isinstance(layer, nn.Conv2d | nn.Linear):
                    layer.bfloat16()

    def load(self, flat: torch.Tensor) -> None:
        """Take new weights, a vector as `flat_weights` makes."""
        load_flat_weights(self._network, flat)

    @torch.inference_mode()
    def act(
        self,
        observations: torch.Tensor,
        state: ActorState,
        uniforms: torch.Tensor,
        vectors: torch.Tensor | None = None,
    ) -> Decision:
        """One action for each of E environments: observations `[E, S*C, H, W]` uint8, vectors `[E, D]`.

        `uniforms [E, ...]` are in [0, 1), as many for each environment as an action needs.

        Actions are sampled on the CPU, where the uniforms are: cumulative sums on CUDA are not deterministic.
        """
        environments = len(observations)
        output = self._network(
            NetworkInput(
                observations=observations.unsqueeze(0),
                previous_actions=state.previous_actions.unsqueeze(0),
                previous_rewards=state.previous_rewards.unsqueeze(0),
                # `restart` has reset the LSTM state already.
                starts=torch.zeros(1, environments, dtype=torch.bool, device=observations.device),
                lstm_state=state.lstm_state,
                vectors=None if vectors is None else vectors.unsqueeze(0),
            )
        )
        logits = output.logits[0]
        features = self._network.project(output.features[0])
        actions = self.distribution.sample(logits.cpu(), uniforms)
        return Decision(actions, logits, output.values[0], features, output.lstm_state)


def weight_count(network: nn.Module) -> int:
    """The length of the vector."""
    return sum(weight.numel() for weight in _weights(network))


def _weights(network: nn.Module) -> list[torch.Tensor]:
    """Parameters and buffers, in a fixed order."""
    return [*network.parameters(), *network.buffers()]


@torch.no_grad()
def flat_weights(network: nn.Module) -> torch.Tensor:
    """A new vector `[weight_count]`, float32 on the network's device."""
    return torch.cat([weight.reshape(-1) for weight in _weights(network)]).float()


@torch.no_grad()
def write_flat_weights(network: nn.Module, flat: torch.Tensor) -> None:
    """Write all weights to `flat [weight_count]`, which may be on another device."""
    for weight, part in _pairs(network, flat):
        part.copy_(weight)


@torch.no_grad()
def load_flat_weights(network: nn.Module, flat: torch.Tensor) -> None:
    """Copy `flat [weight_count]` to the weights; dtypes and memory formats of the network stay as they are."""
    for weight, part in _pairs(network, flat):
        weight.copy_(part)


def _pairs(network: nn.Module, flat: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Each weight with its part of `flat`, a view of the same shape."""
    weights = _weights(network)
    for weight, part in zip(weights, torch.split(flat, [weight.numel() for weight in weights]), strict=True):
        yield weight, part.view(weight.shape)
