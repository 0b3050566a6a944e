"""One of n actions, by their logits `[..., n]`."""

from dataclasses import dataclass

import torch
from torch.nn.functional import log_softmax, softmax


@dataclass(frozen=True)
class Categorical:
    """The categorical distribution over `size` actions."""

    size: int

    @property
    def parameter_count(self) -> int:
        return self.size

    @property
    def encoded_size(self) -> int:
        return self.size

    def sample(self, logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        cumulative = softmax(logits.double(), dim=-1).cumsum(-1)
        # The last sum, 1 up to rounding, is left out: a uniform number could be above it.
        return (uniforms.double().unsqueeze(-1) >= cumulative[..., :-1]).sum(-1)

    def most_likely(self, logits: torch.Tensor) -> torch.Tensor:
        """Of equally probable actions the first."""
        return logits.argmax(-1)

    def log_prob(self, logits: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return log_softmax(logits, dim=-1).gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self, logits: torch.Tensor) -> torch.Tensor:
        log_p = log_softmax(logits, dim=-1)
        return -(log_p.exp() * log_p).sum(-1)

    def kl_divergence(self, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        log_p = log_softmax(p, dim=-1)
        return (log_p.exp() * (log_p - log_softmax(q, dim=-1))).sum(-1)

    @torch.no_grad()
    def implied_divergence(self, target: torch.Tensor, behaviour: torch.Tensor, rho_bar: float) -> torch.Tensor:
        """Exact."""
        return self.kl_divergence(target, self.implied_logits(target, behaviour, rho_bar))

    def implied_logits(self, target: torch.Tensor, behaviour: torch.Tensor, rho_bar: float) -> torch.Tensor:
        """Logits of π̃ ∝ min(ρ̄·μ, π): `[..., n]`, `[..., n]` → `[..., n]`."""
        log_scaled_mu = log_softmax(behaviour, dim=-1) + torch.tensor(rho_bar).log().item()
        return torch.minimum(log_scaled_mu, log_softmax(target, dim=-1))

    def encode(self, actions: torch.Tensor) -> torch.Tensor:
        """One-hot."""
        return (torch.arange(self.size, device=actions.device) == actions.unsqueeze(-1)).float()

    def as_bars(self, logits: torch.Tensor) -> torch.Tensor:
        """π: `[..., n]` → `[..., n]`."""
        return softmax(logits, dim=-1)

    def spread(self, logits: torch.Tensor) -> torch.Tensor:
        """The standard deviation of an action's probability over the states; the mean over the actions."""
        return softmax(logits, dim=-1).flatten(0, -2).std(0, correction=0).mean()
