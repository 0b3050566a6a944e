"""What the losses, V-trace, acting, tests and exports ask of a policy: the same for every kind of action.

Heads, fields of unrolls, checks of checkpoints and displays differ by kind, and ask for `layout.action_kind`.
"""

from typing import Protocol

import torch

from agents.distributions.categorical import Categorical, IndependentCategoricals
from agents.distributions.diagonal_gaussian import DiagonalGaussian
from replay.unroll_layout import UnrollLayout


class PolicyDistribution(Protocol):
    """A family of distributions over actions. P numbers, the outputs of the policy head, describe one of them.

    An action has the shape `A`: `[]` for one choice, else `[K]`. It is decided by as many random numbers, uniform in
    [0, 1).
    """

    @property
    def parameter_count(self) -> int:
        """P."""

    @property
    def encoded_size(self) -> int:
        """The length of an encoded action."""

    def sample(self, parameters: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        """Actions by inversion sampling: `[..., P]`, `[..., A]` → int64 or float32 `[..., A]`."""

    def most_likely(self, parameters: torch.Tensor) -> torch.Tensor:
        """The actions of highest probability: `[..., P]` → `[..., A]`."""

    def log_prob(self, parameters: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """log π(a), for real numbers the logarithm of the density: `[..., P]`, `[..., A]` → `[...]`."""

    def entropy(self, parameters: torch.Tensor) -> torch.Tensor:
        """H(π), for real numbers the differential entropy: `[..., P]` → `[...]`."""

    def kl_divergence(self, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        """KL(p ‖ q): `[..., P]`, `[..., P]` → `[...]`."""

    def implied_divergence(self, target: torch.Tensor, behaviour: torch.Tensor, rho_bar: float) -> torch.Tensor:
        """KL(π ‖ π̃), π̃ ∝ min(ρ̄·μ, π) the policy whose value V-trace estimates: `[..., P]`, `[..., P]` → `[...]`.

        It is exact, or a mean over a fixed set of points, so equal policies always give equal results. No gradient.
        """

    def encode(self, actions: torch.Tensor) -> torch.Tensor:
        """Actions as an LSTM sees them: `[..., A]` → float32 `[..., encoded_size]`. No action, -1, is all zeros."""

    def as_bars(self, parameters: torch.Tensor) -> torch.Tensor:
        """The policy as a person sees it: `[..., P]` → `[..., encoded_size]`, each from 0 to 1.

        The probability of each choice; for a real number, where its mean lies between -1 and 1.
        """

    def spread(self, parameters: torch.Tensor) -> torch.Tensor:
        """How much the policy differs between states: `[..., P]` → scalar; near 0, it ignores the observations."""


def distribution_of(layout: UnrollLayout) -> PolicyDistribution:
    """The kind of policy that acts in the environment of `layout`."""
    if layout.action_kind == "discrete":
        return Categorical(layout.action_count)
    if layout.action_kind == "product":
        return IndependentCategoricals(layout.action_sizes)
    if layout.action_kind == "gaussian":
        return DiagonalGaussian(len(layout.action_sizes))
    raise ValueError(f"there is no distribution for actions of the kind {layout.action_kind}")
