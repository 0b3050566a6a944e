"""The network in a form that can be exported: one step, in float32, with only tensors as inputs and outputs."""

import torch
from torch import nn

from agents.distributions import masked
from agents.network import PIXEL_SCALE, ActorCritic
from agents.torsos.own_torso import LARGEST_INPUT, TorsoInput


class ExportedPolicy(nn.Module):
    """The parts of observations → logits `[N, P]`, values `[N]`.

    Inputs: `observations [N, S*C, H, W]` uint8 if there are pictures, then `vectors [N, D]` if there are vectors, then
    `action_masks [N, P]`, 1 for a possible choice and 0 for another, if there are action masks.
    """

    outputs: tuple[str, ...] = ("logits", "values")

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        self.torso, self.policy_head, self.value_head = network.torso, network.policy_head, network.value_head
        self.has_pictures, self.has_vectors = network.background.numel() > 0, network.vector_mean is not None
        pictures = ("observations",) if self.has_pictures else ()
        self.has_masks = network.mask_size > 0
        vectors, masks = ("vectors",) if self.has_vectors else (), ("action_masks",) if self.has_masks else ()
        self.inputs: tuple[str, ...] = (*pictures, *vectors, *masks)
        self.background: torch.Tensor
        self.register_buffer("background", network.background)
        self.vector_mean: torch.Tensor
        self.register_buffer("vector_mean", network.vector_mean)
        self.vector_deviation: torch.Tensor
        self.register_buffer("vector_deviation", network.vector_deviation)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.heads(self.features(*inputs), inputs)

    def features(self, *inputs: torch.Tensor) -> torch.Tensor:
        """`[N, F]`, from the parts of observations."""
        parts: list[torch.Tensor] = []
        if self.has_pictures:
            parts.append((inputs[0].float() - self.background) * PIXEL_SCALE)
        if self.has_vectors:
            normalised = (inputs[len(parts)] - self.vector_mean) / self.vector_deviation
            parts.append(normalised.clamp(-LARGEST_INPUT, LARGEST_INPUT))
        seen: TorsoInput = parts[0] if len(parts) == 1 else (parts[0], parts[1])
        features: torch.Tensor = self.torso(seen)
        return features

    def heads(self, hidden: torch.Tensor, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.policy_head(hidden)
        if self.has_masks:
            logits = masked(logits, inputs[self.inputs.index("action_masks")])
        return logits, self.value_head(hidden).squeeze(-1)


class ExportedRecurrentPolicy(ExportedPolicy):
    """With an LSTM. Further inputs: previous_actions `[N, ...]`, previous_rewards `[N]`, states `[N, 2, L]`.

    Further output: new_states `[N, 2, L]`.
    At the start of an episode the previous action is -1 (0 if actions are real numbers), and the previous reward and
    the state are 0.
    """

    outputs = ("logits", "values", "new_states")

    def __init__(self, network: ActorCritic) -> None:
        super().__init__(network)
        assert network.lstm is not None
        self.lstm = network.lstm
        self.distribution = network.distribution
        self.inputs = (*self.inputs, "previous_actions", "previous_rewards", "states")

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        *_, previous_actions, previous_rewards, states = inputs
        actions = self.distribution.encode(previous_actions)
        features = torch.cat([self.features(*inputs), actions, previous_rewards.unsqueeze(-1)], dim=-1)
        hidden, cell = self.lstm_step(features, states[:, 0], states[:, 1])
        return *self.heads(hidden, inputs), torch.stack([hidden, cell], dim=1)

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
