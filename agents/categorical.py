"""The categorical distribution over actions, by its logits `[..., A]`.

No other module assumes that policies are categorical.
"""

import torch
from torch.nn.functional import log_softmax, softmax


def probabilities(logits: torch.Tensor) -> torch.Tensor:
    """π: `[..., A]` → `[..., A]`."""
    return softmax(logits, dim=-1)


def log_prob(logits: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """log π(a) of the given actions: `[..., A]`, integer `[...]` → `[...]`."""
    return log_softmax(logits, dim=-1).gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)


def entropy(logits: torch.Tensor) -> torch.Tensor:
    """H(π): `[..., A]` → `[...]`."""
    log_p = log_softmax(logits, dim=-1)
    return -(log_p.exp() * log_p).sum(-1)


def kl_divergence(p_logits: torch.Tensor, q_logits: torch.Tensor) -> torch.Tensor:
    """KL(p ‖ q): `[..., A]`, `[..., A]` → `[...]`."""
    log_p = log_softmax(p_logits, dim=-1)
    return (log_p.exp() * (log_p - log_softmax(q_logits, dim=-1))).sum(-1)


def clipped_policy_logits(target_logits: torch.Tensor, behaviour_logits: torch.Tensor, rho_bar: float) -> torch.Tensor:
    """Logits of π̃ ∝ min(ρ̄·μ, π), the policy whose value V-trace estimates: `[..., A]`, `[..., A]` → `[..., A]`."""
    log_scaled_mu = log_softmax(behaviour_logits, dim=-1) + torch.tensor(rho_bar).log().item()
    return torch.minimum(log_scaled_mu, log_softmax(target_logits, dim=-1))


def sample(logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Actions by inversion sampling: `[..., A]`, one number in [0, 1) each `[...]` → int64 `[...]`."""
    cumulative = softmax(logits.double(), dim=-1).cumsum(-1)
    # The last sum, 1 up to rounding, is left out: a uniform number could be above it.
    return (uniforms.double().unsqueeze(-1) >= cumulative[..., :-1]).sum(-1)


def most_likely(logits: torch.Tensor) -> torch.Tensor:
    """The most probable action, of equally probable ones the first: `[..., A]` → int64 `[...]`."""
    return logits.argmax(-1)
