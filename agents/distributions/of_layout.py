"""The distribution of the actions that unrolls hold."""

from agents.distributions.categorical import Categorical
from agents.distributions.diagonal_gaussian import DiagonalGaussian
from agents.distributions.independent_categoricals import IndependentCategoricals
from agents.distributions.interface import PolicyDistribution
from replay.unroll_layout import UnrollLayout


def distribution_of(layout: UnrollLayout) -> PolicyDistribution:
    """The kind of policy that acts in the environment of `layout`."""
    if layout.action_kind == "discrete":
        return Categorical(layout.action_count)
    if layout.action_kind == "product":
        return IndependentCategoricals(layout.action_sizes)
    if layout.action_kind == "gaussian":
        return DiagonalGaussian(len(layout.action_sizes))
    raise ValueError(f"there is no distribution for actions of the kind {layout.action_kind}")
