"""How near the unrolls of a replay are to the present: the network's part in choosing what to replay."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from agents.distances import cosine_distance, ln_norm
from agents.distribution import kl_divergence
from agents.network import ActorCritic
from machine.device import padded_size
from options.replay_options import ReplaySpec
from replay.unroll_layout import Rows, UnrollLayout, rebuild_stacks

AT_ONCE = 64  # newest states that unrolls are compared with in one go: each takes memory for all of the unrolls

Distance = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # present [..., D] and other [..., D] → [...]


class Ranking:
    """Distances of whole unrolls, as means over `ranked_states` of their states, evenly spaced.

    By default a state is what the torso makes of it, projected; with `kl_div` it is the policy there.
    """

    def __init__(self, network: ActorCritic, layout: UnrollLayout, options: ReplaySpec) -> None:
        self._network = network
        self._layout = layout
        self._by_policy = options.dist_function == "kl_div"
        self._distance = distance_function(options.dist_function, options.p)
        self._states = evenly_spaced(options.ranked_states, layout.unroll_length)

    @torch.no_grad()
    def drift(self, rows: Rows) -> NDArray[np.float64]:
        """How far the present network's view of each unroll is from its acting policy's: `[m, nbytes]` → `[m]`."""
        fields = self._on_device(rows)
        stored = fields["behaviour_logits" if self._by_policy else "features"][:, self._states].float()
        return as_numbers(self._distance(self._seen(fields), stored).mean(1))[: len(rows)]

    @torch.no_grad()
    def nearness(self, rows: Rows, newest: NDArray[np.uint8]) -> NDArray[np.float64]:
        """How far each unroll is from the nearest of the newest states: `[m, nbytes]`, `[E, S*C, H, W]` → `[m]`."""
        seen = self._seen(self._on_device(rows))  # [m, k, D]
        now = self._embedded(torch.from_numpy(newest).to(seen.device))  # [E, D]
        nearest = [self._distance(some[:, None, None], seen).mean(-1).amin(0) for some in torch.split(now, AT_ONCE)]
        return as_numbers(torch.stack(nearest).amin(0))[: len(rows)]

    def _on_device(self, rows: Rows) -> dict[str, torch.Tensor]:
        """The fields of the unrolls, and of empty ones behind them where the device would rather compute more."""
        device = self._network.projection.device
        empty = padded_size(len(rows), device) - len(rows)
        here = torch.from_numpy(rows).to(device)
        return self._layout.tensors(torch.nn.functional.pad(here, (0, 0, 0, empty)) if empty else here)

    def _seen(self, fields: dict[str, torch.Tensor]) -> torch.Tensor:
        """The ranked states as the present network sees them: `[m, k, D]`."""
        stacks = rebuild_stacks(fields["frames"], fields["dones"], self._states)
        return self._embedded(stacks.flatten(0, 1)).view(*stacks.shape[:2], -1).transpose(0, 1)

    def _embedded(self, observations: torch.Tensor) -> torch.Tensor:
        """`[N, S*C, H, W]` → `[N, D]` float32."""
        features = self._network.features(observations)
        if self._by_policy:
            logits: torch.Tensor = self._network.policy_head(features)
            return logits
        return self._network.project(features).float()


def distance_function(name: str, p: float) -> Distance:
    """The distance of a replay's `dist_function`."""
    if name == "ln_norm":
        return lambda present, other: ln_norm(present, other, p)
    return {"cos_dist": cosine_distance, "kl_div": kl_divergence}[name]


def evenly_spaced(count: int, steps: int) -> list[int]:
    """`count` of the states 0..steps-1, in the middles of equal parts; all of them where there are no more."""
    count = min(count, steps)
    return [(2 * i + 1) * steps // (2 * count) for i in range(count)]


def as_numbers(distances: torch.Tensor) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = distances.cpu().double().numpy()  # MPS has no double
    return numbers
