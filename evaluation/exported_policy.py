"""The network in a form that can be exported: one step, in float32, with only tensors as inputs and outputs."""

import torch
from torch import nn

from agents.network import PIXEL_SCALE, ActorCritic


class ExportedPolicy(nn.Module):
    """observations `[N, S*C, H, W]` uint8 → logits `[N, A]`, values `[N]`."""

    inputs: tuple[str, ...] = ("observations",)
    outputs: tuple[str, ...] = ("logits", "values")

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        self.torso, self.policy_head, self.value_head = network.torso, network.policy_head, network.value_head
        self.background: torch.Tensor
        self.register_buffer("background", network.background)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.heads(self.features(observations))

    def features(self, observations: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.torso((observations.float() - self.background) * PIXEL_SCALE)
        return features

    def heads(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.policy_head(hidden), self.value_head(hidden).squeeze(-1)


class ExportedRecurrentPolicy(ExportedPolicy):
    """With an LSTM. Further inputs: previous_actions `[N]` int64, previous_rewards `[N]`, states `[N, 2, L]`.

    Further output: new_states `[N, 2, L]`.
    At the start of an episode the previous action is -1, and the previous reward and the state are 0.
    """

    inputs = ("observations", "previous_actions", "previous_rewards", "states")
    outputs = ("logits", "values", "new_states")

    def __init__(self, network: ActorCritic) -> None:
        super().__init__(network)
        assert network.lstm is not None
        self.lstm = network.lstm
        self.action_count = network.action_count

    def forward(  # type: ignore[override]
        self,
        observations: torch.Tensor,
        previous_actions: torch.Tensor,
        previous_rewards: torch.Tensor,
        states: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        actions = torch.arange(self.action_count) == previous_actions.unsqueeze(-1)
        features = torch.cat([self.features(observations), actions.float(), previous_rewards.unsqueeze(-1)], dim=-1)
        hidden, cell = self.lstm_step(features, states[:, 0], states[:, 1])
        return *self.heads(hidden), torch.stack([hidden, cell], dim=1)

    def lstm_step(self, features: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """One LSTM step, written out, because exporters would export the loop over time steps inside `nn.LSTM`."""
        weights, recurrent, bias, recurrent_bias = (
            self.lstm.get_parameter(f"{kind}_l0") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        gates = nn.functional.linear(features, weights, bias) + nn.functional.linear(h, recurrent, recurrent_bias)
        input_gate, forget_gate, content, output_gate = gates.chunk(4, dim=-1)
        c = torch.sigmoid(forget_gate) * c + torch.sigmoid(input_gate) * torch.tanh(content)
        return torch.sigmoid(output_gate) * torch.tanh(c), c


def exported(network: ActorCritic) -> ExportedPolicy:
    """A float32 network as a policy for export. It shares the network's parameters."""
    policy = ExportedPolicy(network) if network.lstm is None else ExportedRecurrentPolicy(network)
    return policy.eval().requires_grad_(False)
