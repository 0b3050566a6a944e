"""Distances of unrolls from the current policy, by which replays rank their candidates; smaller is nearer."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from agents.distributions import PolicyDistribution
from agents.network import ActorCritic
from agents.training_batch import observed_pictures
from machine.device import padded_size
from options.replay_options import ReplaySpec
from replay.newest_states import States
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout

# Each newest state takes memory for its distances to all unrolls, so they are compared in groups of this size.
NEWEST_STATES_AT_ONCE = 64

Distance = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # current [..., D] and other [..., D] → [...]


class NetworkRanking:
    """Distances of unrolls: means over `ranked_states` evenly spaced states of an unroll.

    A state is compared by its projected features; with the distance function `kl_div` by its policy.
    """

    def __init__(self, network: ActorCritic, layout: UnrollLayout, options: ReplaySpec) -> None:
        self._network = network
        self._layout = layout
        self._by_policy = options.dist_function == "kl_div"
        self._distance = distance_function(options.dist_function, options.p, network.distribution)
        self._states = evenly_spaced(options.ranked_states, layout.unroll_length)

    @torch.no_grad()
    def drift(self, rows: Rows) -> NDArray[np.float64]:
        """Distance of the current network from the acting policy on each unroll: `[m, nbytes]` → `[m]`."""
        fields = self._on_device(rows)
        stored = fields["behaviour_logits" if self._by_policy else "features"][:, self._states].float()
        return to_numpy(self._distance(self._current(fields), stored).mean(1))[: len(rows)]

    @torch.no_grad()
    def distance_to_newest(self, rows: Rows, newest: States) -> NDArray[np.float64]:
        """Distance of each unroll from the nearest of the `newest` states: `[m, nbytes]` → `[m]`."""
        states = self._current(self._on_device(rows))  # [m, k, D]
        stacks, vectors = (torch.from_numpy(part).to(states.device) for part in newest)
        embedded = self._embed(stacks, vectors)  # [E, D]
        groups = torch.split(embedded, NEWEST_STATES_AT_ONCE)
        nearest = [self._distance(group[:, None, None], states).mean(-1).amin(0) for group in groups]
        return to_numpy(torch.stack(nearest).amin(0))[: len(rows)]

    def _on_device(self, rows: Rows) -> dict[str, torch.Tensor]:
        """The fields of the unrolls on the network's device, padded with empty unrolls to a size that is fast there."""
        device = self._network.projection.device
        empty = padded_size(len(rows), device) - len(rows)
        here = torch.from_numpy(rows).to(device)
        return self._layout.tensors(torch.nn.functional.pad(here, (0, 0, 0, empty)) if empty else here)

    def _current(self, fields: dict[str, torch.Tensor]) -> torch.Tensor:
        """The ranked states of each unroll, embedded by the current network: `[m, k, D]`."""
        states = len(self._states), len(fields["dones"])
        stacks = observed_pictures(fields, self._layout, self._states).flatten(0, 1)
        vectors = None
        if self._layout.vector_length:
            vectors = fields["vectors"][:, self._states].float().transpose(0, 1).flatten(0, 1)
        return self._embed(stacks, vectors).view(*states, -1).transpose(0, 1)

    def _embed(self, observations: torch.Tensor, vectors: torch.Tensor | None) -> torch.Tensor:
        """Projected features, or the policy for `kl_div`: `[N, S*C, H, W]`, `[N, V]` → `[N, D]` float32."""
        features = self._network.features(observations, vectors)
        if self._by_policy:
            return self._network.policy(features, vectors)
        return self._network.project(features).float()


def distance_function(name: str, p: float, distribution: PolicyDistribution) -> Distance:
    """The distance that a replay's `dist_function` names; `p` is the exponent of `ln_norm`."""
    if name == "ln_norm":
        return lambda current, other: ln_norm(current, other, p)
    return {"cos_dist": cosine_distance, "kl_div": distribution.kl_divergence}[name]


def evenly_spaced(count: int, steps: int) -> list[int]:
    """`count` of the states 0..steps-1, in the middles of equal parts; all states if `count` is larger."""
    count = min(count, steps)
    return [(2 * i + 1) * steps // (2 * count) for i in range(count)]


def to_numpy(distances: torch.Tensor) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = distances.cpu().double().numpy()  # to the CPU first: MPS has no float64
    return numbers


LIMITS = torch.finfo(torch.float32)


@torch.no_grad()
def ln_norm(a: torch.Tensor, b: torch.Tensor, p: float) -> torch.Tensor:
    """‖a − b‖_p, without gradient: `[..., F]`, `[..., F]` → `[...]`; the dimensions before F broadcast."""
    _check(a, b)
    differences = (a - b).abs()
    # Powers of x / max(x) can neither overflow nor all underflow. The maximum may be 0 or infinite.
    largest = differences.amax(-1, keepdim=True).clamp(LIMITS.tiny, LIMITS.max)
    return largest.squeeze(-1) * (differences / largest).pow(p).sum(-1).pow(1 / p)


@torch.no_grad()
def cosine_distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """1 − a·b / (‖a‖ ‖b‖), without gradient: `[..., F]`, `[..., F]` → `[...]`; the dimensions before F broadcast.

    A zero vector has distance 1 to every vector, also to itself.
    """
    _check(a, b)
    # For unit vectors, 1 − u·v = ½‖u − v‖². The right side is exact for small distances, and never below 0.
    halves = (_direction(a) - _direction(b)).square().sum(-1) / 2
    both_nonzero = a.any(-1) & b.any(-1)
    return torch.where(both_nonzero, halves, 1.0)


def _direction(vectors: torch.Tensor) -> torch.Tensor:
    """Unit vectors: `[..., F]` → `[..., F]`; NaN for a zero vector."""
    # Scaled first, so that the squares neither overflow nor underflow.
    return normalize(vectors / vectors.abs().amax(-1, keepdim=True), dim=-1)


def _check(a: torch.Tensor, b: torch.Tensor) -> None:
    if not a.dim() or not b.dim() or a.shape[-1] != b.shape[-1]:
        raise ValueError(f"both must be [..., F] with the same F, not {tuple(a.shape)} and {tuple(b.shape)}")
