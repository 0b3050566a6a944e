"""Policies as distributions over actions: choices from logits, or real numbers.

V-trace, losses, acting, tests and exports ask the same of both kinds. P numbers, the outputs of the policy head,
describe a policy in one state: `[..., P]`. An action has the shape `A`: `[]` for one choice, else `[K]`. It is decided
by as many random numbers, uniform in [0, 1).
"""

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import torch
from torch.nn.functional import log_softmax, pad, softmax
from torch.quasirandom import SobolEngine

from replay.row_layout import on_device
from replay.unroll_layout import UnrollLayout

# The logit of a choice that there is not. Its probability is exactly 0; -∞ would make 0 · ∞ of an entropy.
IMPOSSIBLE = -1e30
# Up to so many combinations of choices, the mask of LASER is computed over all of them.
MOST_ENUMERATED = 256


@dataclass(frozen=True)
class Categorical:
    """One choice for each of K factors, independent of each other; factor k has `sizes[k]` choices."""

    sizes: tuple[int, ...]
    is_single: bool = False  # one factor, and an action has the shape `[]` instead of `[1]`

    @property
    def parameter_count(self) -> int:
        """P."""
        return sum(self.sizes)

    @property
    def encoded_size(self) -> int:
        """The length of an encoded action."""
        return sum(self.sizes)

    def sample(self, logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        """Actions by inversion sampling: `[..., P]`, `[..., A]` → int64 `[..., A]`."""
        cumulative = softmax(self._per_factor(logits.double()), dim=-1).cumsum(-1)
        # Sums from the last possible choice on are 1 up to rounding. A uniform number could be above them.
        passed = (self._factors(uniforms.double()).unsqueeze(-1) >= cumulative) & (cumulative < cumulative[..., -1:])
        return self._actions(passed.sum(-1))

    def most_likely(self, logits: torch.Tensor) -> torch.Tensor:
        """The actions of highest probability, of equally probable choices the first: `[..., P]` → `[..., A]`."""
        return self._actions(self._per_factor(logits).argmax(-1))

    def log_prob(self, logits: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """log π(a): `[..., P]`, `[..., A]` → `[...]`; the dimensions before P and A broadcast."""
        log_p = log_softmax(self._per_factor(logits), dim=-1)
        chosen = self._factors(actions.long()).unsqueeze(-1)
        return torch.take_along_dim(log_p, chosen, -1).squeeze(-1).sum(-1)

    def entropy(self, logits: torch.Tensor) -> torch.Tensor:
        """H(π): `[..., P]` → `[...]`."""
        log_p = log_softmax(self._per_factor(logits), dim=-1)
        return -(log_p.exp() * log_p).sum((-1, -2))

    def kl_divergence(self, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        """KL(p ‖ q): `[..., P]`, `[..., P]` → `[...]`."""
        log_p = log_softmax(self._per_factor(p), dim=-1)
        return (log_p.exp() * (log_p - log_softmax(self._per_factor(q), dim=-1))).sum((-1, -2))

    @torch.no_grad()
    def implied_divergence(self, target: torch.Tensor, behaviour: torch.Tensor, rho_bar: float) -> torch.Tensor:
        """KL(π ‖ π̃), π̃ ∝ min(ρ̄·μ, π) the policy whose value V-trace estimates: `[..., P]`, `[..., P]` → `[...]`.

        Exact for up to 256 combinations of choices, else a mean over fixed points, the same each time. No gradient.
        LASER (Schmitt et al. 2019, arXiv 1909.11583) leaves states out where it is large.
        """
        combinations = math.prod(self.sizes)
        if self.is_single:
            log_scaled_mu = log_softmax(behaviour, dim=-1) + torch.tensor(rho_bar).log().item()
            return self.kl_divergence(target, torch.minimum(log_scaled_mu, log_softmax(target, dim=-1)))
        if combinations <= MOST_ENUMERATED:
            joint = on_device(np.array(list(itertools.product(*map(range, self.sizes)))), target.device)
            joint = joint.expand(*target.shape[:-1], *joint.shape)
            pi, mu = (self.log_prob(logits.unsqueeze(-2), joint) for logits in (target, behaviour))
            return one_choice(combinations).implied_divergence(pi, mu, rho_bar)
        return divergence_at_points(self, len(self.sizes), target, behaviour, rho_bar)

    def encode(self, actions: torch.Tensor) -> torch.Tensor:
        """One-hot, factor by factor: `[..., A]` → float32 `[..., encoded_size]`. No action, -1, is all zeros."""
        chosen = zip(self.sizes, torch.split(self._factors(actions), 1, -1), strict=True)
        return torch.cat([torch.arange(size, device=actions.device) == choice for size, choice in chosen], -1).float()

    def as_bars(self, logits: torch.Tensor) -> torch.Tensor:
        """The policy as a person sees it, the probabilities of all choices: `[..., P]` → `[..., encoded_size]`."""
        return torch.cat([softmax(factor, dim=-1) for factor in torch.split(logits, list(self.sizes), -1)], -1)

    def spread(self, logits: torch.Tensor) -> torch.Tensor:
        """How much the policy differs between states: `[..., P]` → scalar; near 0, it ignores the observations.

        The standard deviation of a choice's probability over the states; the mean over all choices.
        """
        return self.as_bars(logits).flatten(0, -2).std(0, correction=0).mean()

    def _factors(self, actions: torch.Tensor) -> torch.Tensor:
        """`[..., A]` → `[..., K]`."""
        return actions.unsqueeze(-1) if self.is_single else actions

    def _actions(self, factors: torch.Tensor) -> torch.Tensor:
        """`[..., K]` → `[..., A]`."""
        return factors.squeeze(-1) if self.is_single else factors

    def _per_factor(self, logits: torch.Tensor) -> torch.Tensor:
        """`[..., P]` → `[..., K, N]`, N the most choices of a factor; choices that a factor has not are impossible."""
        most = max(self.sizes)
        if min(self.sizes) == most:
            return logits.reshape(*logits.shape[:-1], len(self.sizes), most)
        factors = torch.split(logits, list(self.sizes), -1)
        return torch.stack([pad(factor, (0, most - factor.shape[-1]), value=IMPOSSIBLE) for factor in factors], -2)


def masked(logits: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Logits without the choices that are 0 in an action mask: `[..., P]`, `[..., P]` → `[..., P]`."""
    return torch.where(mask > 0, logits, IMPOSSIBLE)


def one_choice(size: int) -> Categorical:
    """One of `size` actions."""
    return Categorical((size,), is_single=True)


# Logarithms of standard deviations outside this range count as its ends, in every function. 1 is half the range of a
# bounded action: from a deviation of 0.007, which is as good as none, to 7.4, with which nearly all actions are at
# their bounds.
SMALLEST_LOG_DEVIATION, LARGEST_LOG_DEVIATION = -5.0, 2.0
HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
# The smallest uniform number above 0 that a generator of float64 numbers gives. It stands in for 0, whose normal number
# would be -∞: so actions are at most 8.3 deviations from the mean.
SMALLEST_UNIFORM = 2.0**-53


@dataclass(frozen=True)
class DiagonalGaussian:
    """The normal distribution of `dimensions` independent numbers. Actions are float32 `[..., K]`, without bounds."""

    dimensions: int

    @property
    def parameter_count(self) -> int:
        return 2 * self.dimensions

    @property
    def encoded_size(self) -> int:
        return self.dimensions

    def means_and_deviations(self, parameters: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`[..., 2K]` → `[..., K]`, `[..., K]`."""
        means, log_deviations = self._split(parameters)
        return means, log_deviations.exp()

    def sample(self, parameters: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        """By the inverse of the normal distribution function, in float64."""
        means, deviations = self.means_and_deviations(parameters.double())
        inner = uniforms.double().clamp(SMALLEST_UNIFORM, 1 - SMALLEST_UNIFORM)
        normals: torch.Tensor = torch.special.ndtri(inner)
        return (means + deviations * normals).float()

    def most_likely(self, parameters: torch.Tensor) -> torch.Tensor:
        """The means."""
        return self._split(parameters)[0].float()

    def log_prob(self, parameters: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        means, log_deviations = self._split(parameters)
        standardised = (actions - means) * (-log_deviations).exp()
        return (-0.5 * standardised.square() - log_deviations - HALF_LOG_2_PI).sum(-1)

    def entropy(self, parameters: torch.Tensor) -> torch.Tensor:
        return (self._split(parameters)[1] + 0.5 + HALF_LOG_2_PI).sum(-1)

    def kl_divergence(self, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        (p_means, p_log), (q_means, q_log) = self._split(p), self._split(q)
        log_ratios = p_log - q_log
        distances = (p_means - q_means) * (-q_log).exp()
        return (0.5 * ((2 * log_ratios).exp() + distances.square() - 1) - log_ratios).sum(-1)

    @torch.no_grad()
    def implied_divergence(self, target: torch.Tensor, behaviour: torch.Tensor, rho_bar: float) -> torch.Tensor:
        return divergence_at_points(self, self.dimensions, target, behaviour, rho_bar)

    def encode(self, actions: torch.Tensor) -> torch.Tensor:
        """The numbers, not beyond -1 and 1, where bounded actions have their bounds."""
        return actions.float().clamp(-1, 1)

    def as_bars(self, parameters: torch.Tensor) -> torch.Tensor:
        """Where the means lie between -1 and 1."""
        return (self.most_likely(parameters).clamp(-1, 1) + 1) / 2

    def spread(self, parameters: torch.Tensor) -> torch.Tensor:
        """The standard deviation of a mean over the states, in units of the mean deviation; the mean over K."""
        means, deviations = self.means_and_deviations(parameters)
        return (means.flatten(0, -2).std(0, correction=0) / deviations.flatten(0, -2).mean(0)).mean()

    def _split(self, parameters: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Means and logarithms of deviations: `[..., 2K]` → `[..., K]`, `[..., K]`."""
        means, log_deviations = torch.split(parameters, self.dimensions, -1)
        return means, log_deviations.clamp(SMALLEST_LOG_DEVIATION, LARGEST_LOG_DEVIATION)


@dataclass(frozen=True)
class Mixed:
    """Choices and real numbers, all independent of each other. Actions are float32 `[..., K]`, choices first."""

    choices: Categorical
    numbers: DiagonalGaussian

    @property
    def parameter_count(self) -> int:
        return self.choices.parameter_count + self.numbers.parameter_count

    @property
    def encoded_size(self) -> int:
        return self.choices.encoded_size + self.numbers.encoded_size

    def sample(self, parameters: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        (logits, normal), (first, last) = self._parameters(parameters), self._actions(uniforms)
        return torch.cat([self.choices.sample(logits, first).float(), self.numbers.sample(normal, last)], -1)

    def most_likely(self, parameters: torch.Tensor) -> torch.Tensor:
        logits, normal = self._parameters(parameters)
        return torch.cat([self.choices.most_likely(logits).float(), self.numbers.most_likely(normal)], -1)

    def log_prob(self, parameters: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        (logits, normal), (first, last) = self._parameters(parameters), self._actions(actions)
        return self.choices.log_prob(logits, first) + self.numbers.log_prob(normal, last)

    def entropy(self, parameters: torch.Tensor) -> torch.Tensor:
        logits, normal = self._parameters(parameters)
        return self.choices.entropy(logits) + self.numbers.entropy(normal)

    def kl_divergence(self, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        (p_logits, p_normal), (q_logits, q_normal) = self._parameters(p), self._parameters(q)
        return self.choices.kl_divergence(p_logits, q_logits) + self.numbers.kl_divergence(p_normal, q_normal)

    @torch.no_grad()
    def implied_divergence(self, target: torch.Tensor, behaviour: torch.Tensor, rho_bar: float) -> torch.Tensor:
        parts = len(self.choices.sizes) + self.numbers.dimensions
        return divergence_at_points(self, parts, target, behaviour, rho_bar)

    def encode(self, actions: torch.Tensor) -> torch.Tensor:
        first, last = self._actions(actions)
        return torch.cat([self.choices.encode(first), self.numbers.encode(last)], -1)

    def as_bars(self, parameters: torch.Tensor) -> torch.Tensor:
        logits, normal = self._parameters(parameters)
        return torch.cat([self.choices.as_bars(logits), self.numbers.as_bars(normal)], -1)

    def spread(self, parameters: torch.Tensor) -> torch.Tensor:
        """The mean of those of both parts."""
        logits, normal = self._parameters(parameters)
        return (self.choices.spread(logits) + self.numbers.spread(normal)) / 2

    def _parameters(self, parameters: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the choices and of the numbers: `[..., P]` → `[..., P1]`, `[..., P2]`."""
        first, last = torch.split(parameters, [self.choices.parameter_count, self.numbers.parameter_count], -1)
        return first, last

    def _actions(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Choices and numbers: `[..., K]` → `[..., K1]`, `[..., K2]`."""
        first, last = torch.split(actions, [len(self.choices.sizes), self.numbers.dimensions], -1)
        return first, last


PolicyDistribution: TypeAlias = Categorical | DiagonalGaussian | Mixed


def distribution_of(layout: UnrollLayout) -> PolicyDistribution:
    """The kind of policy that acts in the environment of `layout`."""
    if layout.action_kind == "discrete":
        return one_choice(layout.action_count)
    if layout.action_kind == "product":
        return Categorical(layout.action_sizes)
    if layout.action_kind == "gaussian":
        return DiagonalGaussian(len(layout.action_sizes))
    choices = tuple(size for size in layout.action_sizes if size)
    return Mixed(Categorical(choices), DiagonalGaussian(len(layout.action_sizes) - len(choices)))


# Means over a policy by a fixed set of evenly spread points, for what has no closed form.
POINTS = 128


@cache
def fixed_points(dimensions: int) -> torch.Tensor:
    """The same points in (0, 1)^K each time, a scrambled Sobol sequence: float64 `[POINTS, K]`."""
    points: torch.Tensor = SobolEngine(dimensions, scramble=True, seed=0).draw(POINTS, dtype=torch.float64)  # type: ignore[no-untyped-call]
    return points.clamp(2**-32, 1 - 2**-32)


def divergence_at_points(
    policy: PolicyDistribution, dimensions: int, target: torch.Tensor, behaviour: torch.Tensor, rho_bar: float
) -> torch.Tensor:
    """KL(π ‖ π̃), π̃ ∝ min(ρ̄·μ, π), from log π(a) − log μ(a) at the actions of π at the fixed points: → `[...]`.

    π̃ = min(1, ρ̄·μ/π)·π / Z with Z = E_π[min(1, ρ̄·μ/π)], so KL(π ‖ π̃) = E_π[max(0, log π/(ρ̄·μ))] + log Z. With
    means over points in place of expectations, it is still never negative, and 0 where the ratio never exceeds ρ̄.
    """
    target, behaviour = target.unsqueeze(-2), behaviour.unsqueeze(-2)
    device = target.device
    # MPS has no float64, and cumulative sums on CUDA are not deterministic: there, actions are sampled on the CPU.
    on_cpu = device.type == "mps" or (device.type == "cuda" and torch.are_deterministic_algorithms_enabled())
    points = on_device(fixed_points(dimensions).numpy(), torch.device("cpu") if on_cpu else device)
    actions = policy.sample(target.to(points.device), points).to(device)
    log_ratios = policy.log_prob(target, actions) - policy.log_prob(behaviour, actions)
    excess = (log_ratios - math.log(rho_bar)).clamp(min=0)
    log_z = torch.logsumexp(-excess, -1) - math.log(POINTS)
    return excess.mean(-1) + log_z
