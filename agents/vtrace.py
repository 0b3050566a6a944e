"""V-trace (Espeholt et al. 2018, arXiv 1802.01561)."""

from typing import NamedTuple

import torch


class VTrace(NamedTuple):
    """All `[T, B]`, without gradients."""

    targets: torch.Tensor  # v_t, the targets of V(x_t)
    advantages: torch.Tensor  # ρ_t (r_t + γ_t v_{t+1} − V_t), the weight of ∇ log π(a_t)
    ratios: torch.Tensor  # π(a_t) / μ(a_t), unclipped


@torch.no_grad()
def vtrace(
    *,
    log_ratios: torch.Tensor,
    discounts: torch.Tensor,
    rewards: torch.Tensor,
    values: torch.Tensor,
    bootstrap_value: torch.Tensor,
    rho_bar: float,
    c_bar: float,
    trace_lambda: float,
    trusted: torch.Tensor,
) -> VTrace:
    """Targets and advantages of T steps.

    `log_ratios` log π(a_t) − log μ(a_t), `discounts` γ·(1 − done_t), `rewards`, `values` V(x_t): all `[T, B]`.
    `bootstrap_value` V(x_T): `[B]`. `trusted [T, B]` is the mask of LASER: traces stop at states that are not trusted.
    Nothing stored with such a state counts, even if it is not finite; its own advantage is 0.
    """
    steps_and_batch = log_ratios.shape
    for name, tensor in (("discounts", discounts), ("rewards", rewards), ("values", values), ("trusted", trusted)):
        if tensor.shape != steps_and_batch or tensor.dim() != 2:
            raise ValueError(
                f"{name} must be [T, B] like log_ratios {tuple(steps_and_batch)}, not {tuple(tensor.shape)}"
            )
    if bootstrap_value.shape != steps_and_batch[1:]:
        raise ValueError(f"bootstrap_value must be [B], not {tuple(bootstrap_value.shape)}")
    if rho_bar < c_bar:
        raise ValueError(f"rho_bar {rho_bar} must not be below c_bar {c_bar}")

    ratios = log_ratios.exp()
    rhos = ratios.clamp(max=rho_bar)
    traces = trace_lambda * ratios.clamp(max=c_bar)
    next_values = torch.cat([values[1:], bootstrap_value[None]])
    deltas = torch.where(trusted, rhos * (rewards + discounts * next_values - values), 0.0)
    decays = torch.where(trusted, discounts * traces, 0.0)

    corrections = [torch.zeros_like(bootstrap_value)]  # v_t − V_t, from the end backwards
    for delta, decay in zip(reversed(deltas.unbind()), reversed(decays.unbind()), strict=True):
        corrections.append(torch.addcmul(delta, decay, corrections[-1]))

    targets = values + torch.stack(corrections[:0:-1])
    next_targets = torch.cat([targets[1:], bootstrap_value[None]])
    advantages = torch.where(trusted, rhos * (rewards + discounts * next_targets - values), 0.0)
    return VTrace(targets, advantages, ratios)
