"""The networks: a torso from pixels to features, an optional LSTM, and the heads for policy and value."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import nn

from option_flags import NetworkOptions
from options.rules import UsageError
from replay.unroll_layout import UnrollLayout

SQRT_2 = 2.0**0.5
PIXEL_SCALE = 1 / 256  # brings pixels below 1; a power of two, which bfloat16 has exactly


class NetworkInput(NamedTuple):
    """T steps of B environments. What only an LSTM looks at is always there: it costs nothing."""

    observations: torch.Tensor  # [T, B, S*C, H, W] uint8
    previous_actions: torch.Tensor  # [T, B] int, -1 at an episode start
    previous_rewards: torch.Tensor  # [T, B], clipped, 0 at an episode start
    starts: torch.Tensor  # [T, B] bool, True where an episode starts
    lstm_state: torch.Tensor  # [B, 2, L], h and c before step 0


class NetworkOutput(NamedTuple):
    features: torch.Tensor  # [T, B, F], the torso's last hidden layer
    logits: torch.Tensor  # [T, B, A] float32
    values: torch.Tensor  # [T, B] float32
    lstm_state: torch.Tensor  # [B, 2, L], after the last step


class ActorCritic(nn.Module):
    """Policy and value on one torso.

    It sees how an observation differs from the background, the mean of the observations of this run. What a game shows
    always and everywhere would else go through all layers, and with it the noise of every early gradient, of which
    most features would die before they told one state from another.

    The torso runs in `compute_dtype` (bfloat16 under autocast, or float32), everything behind it in float32.
    """

    def __init__(
        self,
        torso_name: str,
        observation_shape: tuple[int, int, int],
        action_count: int,
        lstm_size: int = 0,
        compute_dtype: torch.dtype = torch.float32,
        projected_size: int = 0,
    ) -> None:
        super().__init__()
        self.action_count = action_count
        self.lstm_size = lstm_size
        self.compute_dtype = compute_dtype
        self.torso, feature_size = make_torso(torso_name, observation_shape)
        self.background: torch.Tensor
        self.register_buffer("background", torch.zeros(observation_shape))
        # Random and never trained: it keeps distances between features, in fewer numbers.
        self.projection: torch.Tensor
        self.register_buffer("projection", torch.randn(feature_size, projected_size) / max(1, projected_size) ** 0.5)
        self.lstm: nn.LSTM | None = None
        if lstm_size:
            self.lstm = nn.LSTM(feature_size + action_count + 1, lstm_size)
            feature_size = lstm_size
        self.policy_head = nn.Linear(feature_size, action_count)
        self.value_head = nn.Linear(feature_size, 1)
        self._initialise()

    def _initialise(self) -> None:
        """Orthogonal weights; a policy head so small that the first policy is close to uniform everywhere."""
        for module in self.torso.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                _orthogonal(module, SQRT_2)
        for section in self.torso.modules():
            if isinstance(section, ResidualSection):
                section.start_near_identity()
        if self.lstm is not None:
            for name, parameter in self.lstm.named_parameters():
                if "weight" in name:
                    for gate in parameter.data.chunk(4):
                        nn.init.orthogonal_(gate)
                else:
                    nn.init.zeros_(parameter)
        _orthogonal(self.policy_head, 0.01)
        _orthogonal(self.value_head, 1.0)

    def features(self, observations: torch.Tensor, unlearned: int = 0) -> torch.Tensor:
        """The torso's last hidden layer, of each state on its own: `[N, S*C, H, W]` uint8 → `[N, F]` float32.

        Through those of the last `unlearned` states goes no gradient.
        """
        if observations.dtype != torch.uint8:
            raise TypeError(f"observations must be uint8 pixels, not {observations.dtype}")
        device_type, channels_last = observations.device.type, torch.channels_last
        with torch.autocast(device_type, torch.bfloat16, enabled=self.compute_dtype == torch.bfloat16):
            background = (-PIXEL_SCALE * self.background).to(self.compute_dtype).unsqueeze(0)
            pixels = torch.add(  # in one pass, for which both have to lie in the same order
                background.contiguous(memory_format=channels_last),
                observations.contiguous(memory_format=channels_last),
                alpha=PIXEL_SCALE,
            )
            learned = len(pixels) - unlearned  # first of all: autocast keeps the weights that it casts here for all
            features: torch.Tensor = self.torso(pixels[:learned])
            if unlearned:
                with torch.no_grad():
                    others = self.torso(pixels[learned:])
                features = torch.cat([features, others])
        return features.float()

    @torch.no_grad()
    def watch(self, observations: torch.Tensor, weight: float) -> None:
        """Move the background towards the mean of these observations `[N, S*C, H, W]`, by `weight` in (0, 1]."""
        self.background.lerp_(observations.float().mean(0), weight)

    def load_saved(self, state: Mapping[str, torch.Tensor]) -> None:
        """The weights of a checkpoint; whoever compares features otherwise keeps a projection of its own."""
        same = state["projection"].shape == self.projection.shape
        self.load_state_dict({**state, "projection": state["projection"] if same else self.projection})

    def project(self, features: torch.Tensor) -> torch.Tensor:
        """Features as unrolls carry them: `[..., F]` → `[..., projected_size]` float16."""
        return (features @ self.projection).half()

    def forward(self, inputs: NetworkInput, bootstraps: bool = False) -> NetworkOutput:
        """With `bootstraps`, the last step is there for its value only, and no gradient goes through its torso."""
        steps, batch = inputs.starts.shape
        unlearned = batch if bootstraps else 0
        features = self.features(inputs.observations.flatten(0, 1), unlearned).view(steps, batch, -1)
        hidden, lstm_state = self._remember(features, inputs)
        logits: torch.Tensor = self.policy_head(hidden)
        values: torch.Tensor = self.value_head(hidden)
        return NetworkOutput(features, logits, values.squeeze(-1), lstm_state)

    def _remember(self, features: torch.Tensor, inputs: NetworkInput) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the LSTM, if there is one, with an empty memory at each episode start."""
        if self.lstm is None:
            return features, inputs.lstm_state
        actions = torch.arange(self.action_count, device=features.device) == inputs.previous_actions.unsqueeze(-1)
        lstm_inputs = torch.cat([features, actions.float(), inputs.previous_rewards.unsqueeze(-1)], dim=-1)
        keep = (~inputs.starts).float().unsqueeze(-1)  # [T, B, 1]
        h, c = (state.unsqueeze(0).contiguous() for state in inputs.lstm_state.unbind(1))  # [1, B, L] each
        outputs = []
        for step, kept in zip(lstm_inputs, keep, strict=True):
            output, (h, c) = self.lstm(step.unsqueeze(0), (h * kept, c * kept))
            outputs.append(output)
        return torch.cat(outputs), torch.stack([h[0], c[0]], dim=1)


def make_torso(name: str, observation_shape: tuple[int, int, int]) -> tuple[nn.Module, int]:
    """The named torso and the size of its last hidden layer."""
    channels = observation_shape[0]
    if name == "nature":
        convolutions = _convolutions(channels, [(32, 8, 4), (64, 4, 2), (64, 3, 1)])
        hidden = 512
    elif name == "impala_shallow":
        convolutions = _convolutions(channels, [(16, 8, 4), (32, 4, 2)])
        hidden = 256
    elif name == "conv3":
        convolutions = _convolutions(channels, [(64, 3, 3), (64, 3, 2), (128, 3, 2)])
        hidden = 512
    elif name == "impala_deep":
        blocks = [ResidualSection(i, o) for i, o in ((channels, 16), (16, 32), (32, 32))]
        convolutions = nn.Sequential(*blocks, nn.ReLU())
        hidden = 256
    else:
        raise ValueError(f"there is no network named {name}")
    try:
        with torch.no_grad():
            flat_size = convolutions(torch.zeros(1, *observation_shape)).numel()
    except RuntimeError:  # a kernel larger than what is left of the picture
        height, width = observation_shape[1:]
        raise UsageError(
            f"--frame_scale_resolution={height},{width} is too small for --network={name}; 84,84 would be right."
        ) from None
    return nn.Sequential(convolutions, nn.Flatten(), nn.Linear(flat_size, hidden), nn.ReLU()), hidden


class ResidualSection(nn.Module):
    """One of the three sections of the IMPALA paper's deep network: convolution, pooling, two residual blocks."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.ReLU(),
                nn.Conv2d(out_channels, out_channels, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(out_channels, out_channels, 3, padding=1),
            )
            for _ in range(2)
        )

    def start_near_identity(self) -> None:
        """Keep what the blocks add small at first: at full gain the features would grow from block to block."""
        for block in self.blocks:
            assert isinstance(block, nn.Sequential)
            last = block[-1]
            assert isinstance(last, nn.Conv2d)
            _orthogonal(last, 0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.convolution(x))
        for block in self.blocks:
            x = x + block(x)
        return x


def _convolutions(in_channels: int, layers: list[tuple[int, int, int]]) -> nn.Sequential:
    modules: list[nn.Module] = []
    for out_channels, kernel, stride in layers:
        modules += [nn.Conv2d(in_channels, out_channels, kernel, stride), nn.ReLU()]
        in_channels = out_channels
    return nn.Sequential(*modules)


def _orthogonal(layer: nn.Conv2d | nn.Linear, gain: float) -> None:
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)


def weight_count(network: nn.Module) -> int:
    return sum(weight.numel() for weight in _weights(network))


def _weights(network: nn.Module) -> list[torch.Tensor]:
    """All that two copies of a network must share to be equal."""
    return [*network.parameters(), *network.buffers()]


@torch.no_grad()
def flat_weights(network: nn.Module) -> torch.Tensor:
    """All weights behind one another, float32 on the network's device: `[weight_count]`."""
    return torch.cat([weight.reshape(-1) for weight in _weights(network)]).float()


@torch.no_grad()
def write_flat_weights(network: nn.Module, flat: torch.Tensor) -> None:
    """The same to memory that is there already, on any device."""
    for weight, part in _beside(network, flat):
        part.copy_(weight)


@torch.no_grad()
def load_flat_weights(network: nn.Module, flat: torch.Tensor) -> None:
    """The inverse of both, into whatever dtype and layout the network has."""
    for weight, part in _beside(network, flat):
        weight.copy_(part)


def _beside(network: nn.Module, flat: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Each weight, and its place in `flat` as a view of the same shape."""
    weights = _weights(network)
    for weight, part in zip(weights, torch.split(flat, [weight.numel() for weight in weights]), strict=True):
        yield weight, part.view(weight.shape)


def make_network(options: NetworkOptions, layout: UnrollLayout, compute_dtype: torch.dtype) -> ActorCritic:
    """The network of `--network` for the observations and actions of an unroll."""
    channels, height, width = layout.frame_shape
    observation_shape = (layout.frame_stack * channels, height, width)
    return ActorCritic(
        options.network, observation_shape, layout.action_count, layout.lstm_size, compute_dtype, layout.feature_size
    )
