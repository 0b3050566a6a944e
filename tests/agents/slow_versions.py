"""Slow versions of V-trace, entropy and KL, written like their definitions, one number at a time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def probabilities(logits: Array) -> Array:
    """`[A]` → `[A]`."""
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


def entropy(p: Array) -> float:
    return -sum(float(x) * float(np.log(x)) for x in p)


def kl(p: Array, q: Array) -> float:
    """KL(p ‖ q) of two lists of probabilities."""
    return sum(float(x) * float(np.log(x / y)) for x, y in zip(p, q, strict=True))


def product(factors: Array) -> float:
    result = 1.0
    for factor in factors:
        result *= float(factor)
    return result


class Steps(NamedTuple):
    """The inputs of V-trace: `[T, B]` each, the last one `[B]`."""

    log_ratios: Array
    discounts: Array
    rewards: Array
    values: Array
    bootstrap_value: Array


def vtrace_targets(
    steps: Steps, rho_bar: float, c_bar: float, trace_lambda: float, trusted: NDArray[np.bool_]
) -> Array:
    """v_s = V(x_s) + Σ_t (Π_{i<t} γ_i c_i) δ_t as in the paper; c and δ are 0 at an untrusted state."""
    length, batch = steps.values.shape
    targets = np.zeros((length, batch))
    for b in range(batch):
        ratio, discount, mask = np.exp(steps.log_ratios[:, b]), steps.discounts[:, b], trusted[:, b].astype(float)
        rho, c = np.minimum(rho_bar, ratio), trace_lambda * np.minimum(c_bar, ratio)
        value = np.append(steps.values[:, b], steps.bootstrap_value[b])
        for s in range(length):
            targets[s, b] = value[s]
            for t in range(s, length):
                delta = rho[t] * (steps.rewards[t, b] + discount[t] * value[t + 1] - value[t])
                targets[s, b] += product(discount[s:t] * c[s:t] * mask[s:t]) * mask[t] * delta
    return targets


def vtrace_advantages(steps: Steps, targets: Array, rho_bar: float, trusted: NDArray[np.bool_]) -> Array:
    length, batch = steps.values.shape
    advantages = np.zeros((length, batch))
    for t, b in np.ndindex(length, batch):
        next_target = targets[t + 1, b] if t + 1 < length else steps.bootstrap_value[b]
        rho = min(rho_bar, float(np.exp(steps.log_ratios[t, b])))
        advantage = rho * (steps.rewards[t, b] + steps.discounts[t, b] * next_target - steps.values[t, b])
        advantages[t, b] = advantage if trusted[t, b] else 0
    return advantages


def is_trusted(target_logits: Array, behaviour_logits: Array, rho_bar: float, threshold: float) -> bool:
    """KL(π ‖ π̃) < threshold with π̃ ∝ min(ρ̄·μ, π), for one state."""
    pi, mu = probabilities(target_logits), probabilities(behaviour_logits)
    implied = np.minimum(rho_bar * mu, pi)
    return kl(pi, implied / implied.sum()) < threshold


def gae_advantage(steps: Steps, s: int, b: int, rho_bar: float, c_bar: float, trace_lambda: float) -> float:
    """Â_s of IMPACT: Σ_t (Π_{s≤i<t} λ γ_i c_i) δ_t, the generalised advantage with the weights of V-trace."""
    value = np.append(steps.values[:, b], steps.bootstrap_value[b])
    advantage = 0.0
    for t in range(s, len(steps.values)):
        weight = 1.0
        for i in range(s, t):
            c = min(c_bar, float(np.exp(steps.log_ratios[i, b])))
            weight *= trace_lambda * float(steps.discounts[i, b]) * c
        rho = min(rho_bar, float(np.exp(steps.log_ratios[t, b])))
        error = float(steps.rewards[t, b]) + float(steps.discounts[t, b]) * float(value[t + 1]) - float(value[t])
        advantage += weight * rho * error
    return advantage


def surrogate_objective(
    policy: float, target: float, behaviour: float, advantage: float, rho: float, epsilon: float
) -> float:
    """IMPACT's objective of one action, from its probabilities by the three policies."""
    ratio = min(behaviour / target, rho) * policy / behaviour
    clipped = min(max(ratio, 1 - epsilon), 1 + epsilon)
    return min(ratio * advantage, clipped * advantage)
