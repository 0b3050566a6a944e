"""The network: a torso from observations to features, an optional LSTM, and one head each for policy and value."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import nn

from agents.distributions import distribution_of, masked
from agents.heads import ValueHead, make_policy_head
from agents.torsos.make_torso import (
    Observed,
    chosen_network,
    first_vector_layers,
    make_torso,
    parts_for_heads,
    rows,
    torso_input,
)
from agents.torsos.own_torso import LARGEST_INPUT, is_own
from agents.torsos.pictures import initialise_torso, orthogonal_
from option_flags import NetworkOptions
from replay.unroll_layout import UnrollLayout

PIXEL_SCALE = 1 / 256  # a power of two, so that bfloat16 can represent it exactly
LARGEST_MEASURED = 1e15  # entries of a vector beyond it count as this: the square of a larger one may be infinite
SMALLEST_DEVIATION = 1e-4  # of an entry of a vector; smaller ones, as of constants, count as this


class NetworkInput(NamedTuple):
    """T steps of B environments. Only an LSTM uses previous actions and rewards, but they are always given."""

    observations: torch.Tensor  # [T, B, S*C, H, W] uint8; [T, B, 0, 0, 0] without a picture
    previous_actions: torch.Tensor  # [T, B, ...], -1 at an episode start; real numbers, 0 at an episode start
    previous_rewards: torch.Tensor  # [T, B], clipped, 0 at an episode start
    starts: torch.Tensor  # [T, B] bool, True where an episode starts
    lstm_state: torch.Tensor  # [B, 2, L], h and c before step 0
    vectors: torch.Tensor | None = None  # [T, B, D], an action mask last; None for pictures alone


class NetworkOutput(NamedTuple):
    features: torch.Tensor  # [T, B, F], the torso's last hidden layer
    logits: torch.Tensor  # [T, B, P] float32, the parameters of the policy's distribution
    values: torch.Tensor  # [T, B] float32
    lstm_state: torch.Tensor  # [B, 2, L], after the last step


class ActorCritic(nn.Module):
    """Policy and value with one torso.

    The input of the torso is the difference of a picture from the background, the mean picture of the run.
    Without this subtraction, early gradients are dominated by the parts of the picture that never change, and most
    features die before they can distinguish states. A vector is normalised by the mean and the deviation of each of
    its entries over the run, except for the last `one_hot_size` ones.

    The torso computes in `compute_dtype` (bfloat16 under autocast, or float32), everything after it in float32. For
    vectors alone the torso computes in float32 too: it is small, and bfloat16 would round away small differences.
    """

    def __init__(
        self,
        options: NetworkOptions,
        layout: UnrollLayout,  # of the observations and actions
        compute_dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        channels, height, width = layout.frame_shape
        picture = (layout.frame_stack * channels, height, width)
        vector_size, lstm_size, projected_size = layout.vector_size, layout.lstm_size, layout.feature_size
        observed = Observed(picture, vector_size)
        self.mask_size = layout.mask_size
        self.distribution = distribution = distribution_of(layout)
        self.lstm_size = lstm_size
        self.compute_dtype = compute_dtype if observed.has_picture else torch.float32
        self.has_own_torso = is_own(options.network)
        self.torso_name = chosen_network(observed) if options.network == "auto" else options.network
        self.torso, feature_size = make_torso(self.torso_name, observed, options.network_width)
        self.background: torch.Tensor
        self.register_buffer("background", torch.zeros(picture))
        # A random projection, never trained: it approximately preserves distances between features.
        self.projection: torch.Tensor
        self.register_buffer("projection", torch.randn(feature_size, projected_size) / max(1, projected_size) ** 0.5)
        self._measured = slice(0, vector_size - layout.one_hot_size)  # the entries of a vector that are normalised
        self.vector_mean: torch.Tensor | None
        self.vector_deviation: torch.Tensor | None
        self.register_buffer("vector_mean", torch.zeros(vector_size) if vector_size else None)
        self.register_buffer("vector_deviation", torch.ones(vector_size) if vector_size else None)
        self.lstm: nn.LSTM | None = None
        for_policy, for_value = parts_for_heads(self.torso, feature_size)
        if lstm_size:
            self.lstm = nn.LSTM(feature_size + distribution.encoded_size + 1, lstm_size)
            for_policy = for_value = slice(0, lstm_size)
        joystick = layout.action_names if options.factored_actions and layout.action_kind == "discrete" else ()
        self.policy_head = make_policy_head(distribution, for_policy, joystick)
        self.value_head = ValueHead(for_value, options.popart)
        self._initialise()

    def _initialise(self) -> None:
        """Orthogonal weights. The policy head starts small, so that the first policy is nearly the same everywhere.

        A torso of the user's own keeps the weights that it was made with.
        """
        if not self.has_own_torso:
            initialise_torso(self.torso)
        if self.lstm is not None:
            for name, parameter in self.lstm.named_parameters():
                if "weight" in name:
                    for gate in parameter.data.chunk(4):
                        nn.init.orthogonal_(gate)
                else:
                    nn.init.zeros_(parameter)
        orthogonal_(self.policy_head, 0.01)
        orthogonal_(self.value_head, 1.0)

    def features(
        self, observations: torch.Tensor, vectors: torch.Tensor | None = None, without_gradient: int = 0
    ) -> torch.Tensor:
        """The torso's last hidden layer: `[N, S*C, H, W]` uint8, `[N, D]` → `[N, F]` float32.

        The features of the last `without_gradient` states have no gradient, which saves time.
        """
        if observations.dtype != torch.uint8:
            raise TypeError(f"observations must be uint8 pixels, not {observations.dtype}")
        autocasts = self.compute_dtype == torch.bfloat16
        with torch.autocast(observations.device.type, torch.bfloat16, enabled=autocasts):
            # First the states with a gradient: autocast casts the weights here and reuses them for the other states.
            inputs = torso_input(self._pixels(observations), self.normalised(vectors))
            with_gradient = observations.shape[0] - without_gradient  # not len: an export traces the shape
            features: torch.Tensor = self.torso(rows(inputs, slice(with_gradient)))
            if without_gradient:
                with torch.no_grad():
                    others = self.torso(rows(inputs, slice(with_gradient, None)))
                features = torch.cat([features, others])
        return features.float()

    def _pixels(self, observations: torch.Tensor) -> torch.Tensor:
        """Pictures as the torso sees them: the difference from the background, between -1 and 1."""
        if not observations.shape[1]:
            return observations  # no picture
        background = (-PIXEL_SCALE * self.background).to(self.compute_dtype).unsqueeze(0)
        return torch.add(  # one pass over the memory, because both have the same memory format
            background.contiguous(memory_format=torch.channels_last),
            observations.contiguous(memory_format=torch.channels_last),
            alpha=PIXEL_SCALE,
        )

    def normalised(self, vectors: torch.Tensor | None) -> torch.Tensor | None:
        """Vectors as the torso sees them, `[..., D]`; None without vectors."""
        if self.vector_mean is None or self.vector_deviation is None:
            return None
        if vectors is None:
            raise ValueError("this network needs the vectors of the observations")
        numbers = vectors[..., : len(self.vector_mean)]
        return ((numbers - self.vector_mean) / self.vector_deviation).clamp(-LARGEST_INPUT, LARGEST_INPUT)

    def policy(self, hidden: torch.Tensor, vectors: torch.Tensor | None) -> torch.Tensor:
        """The parameters of the policy's distribution, of inputs of the heads: `[..., F]`, `[..., D]` → `[..., P]`.

        Choices that the action mask in the vectors leaves out are impossible.
        """
        logits: torch.Tensor = self.policy_head(hidden)
        return logits if vectors is None or not self.mask_size else masked(logits, vectors[..., -self.mask_size :])

    @torch.no_grad()
    def update_vector_statistics(self, vectors: torch.Tensor, weight: float, keep_function: bool = False) -> None:
        """Move mean and variance towards those of `vectors [N, D]`, by `weight` in (0, 1].

        They become those of a mixture of all states so far and these ones, which have the share `weight` of it.
        `keep_function` changes the first layer for vectors so that it says the same about all vectors as before,
        except for entries that are clipped here. The first layer of a torso of the user's own is not known.
        """
        assert self.vector_mean is not None and self.vector_deviation is not None
        if self._measured.stop == 0:
            return  # zeros and ones alone
        seen = vectors[:, self._measured].clamp(-LARGEST_MEASURED, LARGEST_MEASURED)
        mean, deviation = self.vector_mean[self._measured], self.vector_deviation[self._measured]
        step = seen.mean(0) - mean
        variance = (1 - weight) * (deviation.square() + weight * step.square()) + weight * seen.var(0, correction=0)
        moved = variance.sqrt().clamp(min=SMALLEST_DEVIATION)
        if keep_function:
            # What is clipped says less than its weight: an entry that was constant for long must get no large weight.
            is_clipped = (seen - mean).abs().amax(0) > LARGEST_INPUT * deviation
            for layer in first_vector_layers(self.torso):
                weights = layer.weight[:, self._measured]
                layer.bias.add_(weights @ torch.where(is_clipped, 0, weight * step / deviation))
                weights.mul_(torch.where(is_clipped, 1, moved / deviation))
        mean.add_(weight * step)
        deviation.copy_(moved)

    @torch.no_grad()
    def update_background_mean(self, observations: torch.Tensor, weight: float) -> None:
        """Move the background towards the mean of `observations [N, S*C, H, W]`, by `weight` in (0, 1]."""
        self.background.lerp_(observations.float().mean(0), weight)

    def adapted(self, state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """The weights of a network with another number of actions, in the shapes of this one.

        What depends on the number of actions keeps the values that it has here: the policy head, and the LSTM's
        weights of the previous action.
        """
        own = self.state_dict()
        head = {name: weights for name, weights in own.items() if name.startswith("policy_head.")}
        saved_head = {name: weights.shape for name, weights in state.items() if name.startswith("policy_head.")}
        if saved_head == {name: weights.shape for name, weights in head.items()}:
            return state
        adapted = {**{name: weights for name, weights in state.items() if name not in saved_head}, **head}
        if self.lstm is not None:
            inputs, saved = own["lstm.weight_ih_l0"].clone(), state["lstm.weight_ih_l0"]
            features = inputs.shape[1] - self.distribution.encoded_size - 1  # then the previous action and reward
            inputs[:, :features], inputs[:, -1] = saved[:, :features], saved[:, -1]
            adapted["lstm.weight_ih_l0"] = inputs
        return adapted

    def load_saved(self, state: Mapping[str, torch.Tensor]) -> None:
        """Load the weights of a checkpoint. The projection stays as it is if the saved one has another size.

        Raises RuntimeError for the weights of another network, and ValueError for weights that are not finite.
        """
        same = state["projection"].shape == self.projection.shape
        self.load_state_dict({**state, "projection": state["projection"] if same else self.projection})
        # A buffer of a user's own torso may be infinite, as the mask of an attention layer is.
        own_buffers = {f"torso.{name}" for name, _ in self.torso.named_buffers()} if self.has_own_torso else set()
        for name, weights in self.state_dict().items():
            if name not in own_buffers and not torch.isfinite(weights).all():
                raise ValueError(f"{name} has numbers that are NaN or infinite")

    def project(self, features: torch.Tensor) -> torch.Tensor:
        """Features as unrolls store them: `[..., F]` → `[..., projected_size]` float16."""
        return (features @ self.projection).half()

    def forward(self, inputs: NetworkInput, last_is_bootstrap: bool = False) -> NetworkOutput:
        """Policy and value of T steps, `[T, B, …]`.

        With `last_is_bootstrap`, only the value of the last step is needed; its torso gets no gradient.
        """
        steps, batch = inputs.starts.shape
        without_gradient = batch if last_is_bootstrap else 0
        vectors = None if inputs.vectors is None else inputs.vectors.flatten(0, 1)
        features = self.features(inputs.observations.flatten(0, 1), vectors, without_gradient).view(steps, batch, -1)
        hidden, lstm_state = self._run_lstm(features, inputs)
        logits = self.policy(hidden, inputs.vectors)
        values: torch.Tensor = self.value_head(hidden)
        return NetworkOutput(features, logits, values.squeeze(-1), lstm_state)

    def _run_lstm(self, features: torch.Tensor, inputs: NetworkInput) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs of the heads `[T, B, F or L]` and the new LSTM state; the state is reset at each episode start."""
        if self.lstm is None:
            return features, inputs.lstm_state
        actions = self.distribution.encode(inputs.previous_actions)
        lstm_inputs = torch.cat([features, actions, inputs.previous_rewards.unsqueeze(-1)], dim=-1)
        keep = (~inputs.starts).float().unsqueeze(-1)  # [T, B, 1]
        h, c = (state.unsqueeze(0).contiguous() for state in inputs.lstm_state.unbind(1))  # [1, B, L] each
        outputs = []
        for step, kept in zip(lstm_inputs, keep, strict=True):
            output, (h, c) = self.lstm(step.unsqueeze(0), (h * kept, c * kept))
            outputs.append(output)
        return torch.cat(outputs), torch.stack([h[0], c[0]], dim=1)
