"""One of n actions, or one choice for each of K factors, by their logits."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import log_softmax, pad, softmax

from agents.distributions.quadrature import mean_divergence, points_for
from replay.row_layout import on_device


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


# Up to so many combinations of choices, the mask of LASER is computed over all of them.
MOST_ENUMERATED = 256


@dataclass(frozen=True)
class IndependentCategoricals:
    """A product of categorical distributions; factor k has `sizes[k]` choices. Actions are `[..., K]`."""

    sizes: tuple[int, ...]

    @property
    def parameter_count(self) -> int:
        return sum(self.sizes)

    @property
    def encoded_size(self) -> int:
        return sum(self.sizes)

    def sample(self, logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        cumulative = softmax(self._per_factor(logits.double()), dim=-1).cumsum(-1)
        # Sums from a factor's last choice on are 1 up to rounding. They are left out: a uniform number could be above.
        inner = torch.arange(cumulative.shape[-1], device=logits.device) < self._last(logits.device)[:, None]
        return ((uniforms.double().unsqueeze(-1) >= cumulative) & inner).sum(-1)

    def most_likely(self, logits: torch.Tensor) -> torch.Tensor:
        """Of equally probable choices the first."""
        return self._per_factor(logits).argmax(-1)

    def log_prob(self, logits: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """The sum over the factors. Dimensions before P and K broadcast."""
        log_p = log_softmax(self._per_factor(logits), dim=-1)
        return torch.take_along_dim(log_p, actions.long().unsqueeze(-1), -1).squeeze(-1).sum(-1)

    def entropy(self, logits: torch.Tensor) -> torch.Tensor:
        """The sum over the factors."""
        p, log_p = self._probabilities(logits)
        return -(p * log_p).sum((-1, -2))

    def kl_divergence(self, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        """The sum over the factors."""
        probabilities, log_p = self._probabilities(p)
        return (probabilities * (log_p - self._probabilities(q)[1])).sum((-1, -2))

    @torch.no_grad()
    def implied_divergence(self, target: torch.Tensor, behaviour: torch.Tensor, rho_bar: float) -> torch.Tensor:
        """Exact for up to 256 combinations of choices, else a mean over fixed points."""
        combinations = math.prod(self.sizes)
        if combinations <= MOST_ENUMERATED:
            joint = on_device(np.array(list(itertools.product(*map(range, self.sizes)))), target.device)
            joint = joint.expand(*target.shape[:-1], *joint.shape)
            pi, mu = (self.log_prob(logits.unsqueeze(-2), joint) for logits in (target, behaviour))
            return Categorical(combinations).implied_divergence(pi, mu, rho_bar)
        points = points_for(len(self.sizes), target.device)
        actions = self.sample(target.to(points.device).unsqueeze(-2), points).to(target.device)
        ratios = self.log_prob(target.unsqueeze(-2), actions) - self.log_prob(behaviour.unsqueeze(-2), actions)
        return mean_divergence(ratios, rho_bar)

    def encode(self, actions: torch.Tensor) -> torch.Tensor:
        """The one-hot vectors of the factors, one after another."""
        chosen = zip(self.sizes, actions.unbind(-1), strict=True)
        return torch.cat([Categorical(size).encode(choice) for size, choice in chosen], -1)

    def as_bars(self, logits: torch.Tensor) -> torch.Tensor:
        """The probabilities of all choices, factor by factor."""
        return torch.cat([softmax(factor, dim=-1) for factor in torch.split(logits, list(self.sizes), -1)], -1)

    def spread(self, logits: torch.Tensor) -> torch.Tensor:
        """The standard deviation of a choice's probability over the states; the mean over all choices."""
        return self.as_bars(logits).flatten(0, -2).std(0, correction=0).mean()

    def _last(self, device: torch.device) -> torch.Tensor:
        """The last choice of each factor, `[K]`."""
        return on_device(np.array(self.sizes) - 1, device)

    def _per_factor(self, logits: torch.Tensor) -> torch.Tensor:
        """`[..., P]` → `[..., K, N]`, N the most choices of a factor; -inf for choices that a factor does not have."""
        most = max(self.sizes)
        if min(self.sizes) == most:
            return logits.reshape(*logits.shape[:-1], len(self.sizes), most)
        factors = torch.split(logits, list(self.sizes), -1)
        return torch.stack([pad(factor, (0, most - factor.shape[-1]), value=-math.inf) for factor in factors], -2)

    def _probabilities(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """p and log p: `[..., P]` → `[..., K, N]` each; both 0 for choices that a factor does not have."""
        log_p = log_softmax(self._per_factor(logits), dim=-1)
        missing = torch.arange(log_p.shape[-1], device=logits.device) > self._last(logits.device)[:, None]
        return log_p.exp(), log_p.masked_fill(missing, 0.0)
