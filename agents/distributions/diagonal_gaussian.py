"""K real numbers, each from its own normal distribution: K means, then K logarithms of standard deviations."""

import math
from dataclasses import dataclass

import torch

from agents.distributions.quadrature import mean_divergence, points_for

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
        return self._at(parameters, uniforms).float()

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
        """A mean over fixed points."""
        target, behaviour = target.unsqueeze(-2), behaviour.unsqueeze(-2)
        points = points_for(self.dimensions, target.device)
        actions = self._at(target.to(points.device), points).to(target.dtype).to(target.device)
        return mean_divergence(self.log_prob(target, actions) - self.log_prob(behaviour, actions), rho_bar)

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

    def _at(self, parameters: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        """The numbers whose distribution function is `uniforms`: `[..., 2K]`, `[..., K]` → float64 `[..., K]`."""
        means, deviations = self.means_and_deviations(parameters.double())
        inner = uniforms.double().clamp(SMALLEST_UNIFORM, 1 - SMALLEST_UNIFORM)
        normals: torch.Tensor = torch.special.ndtri(inner)
        return means + deviations * normals
