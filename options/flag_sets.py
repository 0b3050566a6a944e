"""Defaults that depend on other options: on the environment, on --protocol and on --loss."""

from collections.abc import Callable, Mapping
from typing import Any

from options.environment_families import defaults_in
from options.game_protocols import CLASSIC, protocol_flags

VTRACE = "vtrace"  # also the loss of runs of versions without this option
LOSSES: Mapping[str, Mapping[str, Any]] = {
    VTRACE: {"proximal_loss_weight": 0.05},
    # The clip bounds how far the policy moves, as in the paper.
    "impact": {"proximal_loss_weight": 0.0},
}


def loss_flags(name: object) -> Mapping[str, Any]:
    """The flags of a loss; none for a name that is no loss, which the option's rule refuses."""
    return LOSSES.get(name, {}) if isinstance(name, str) else {}


SETS: Mapping[str, tuple[str, Callable[[object], Mapping[str, Any]]]] = {  # by option: its default, and its flags
    "protocol": (CLASSIC, protocol_flags),
    "loss": (VTRACE, loss_flags),
}


def set_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that the given protocol and the given loss set."""
    return {name: value for option, (_, flags) in SETS.items() for name, value in flags(given.get(option)).items()}


def dependent_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that depend on the given flags, where they differ from the declared ones."""
    return set_flags(given) | defaults_in(given)


def merged(saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The saved values of a run, and over them those that are given.

    A given protocol or loss that is not the run's sets its flags anew; single flags that are given beat it.
    """
    changed = {
        option: given[option]
        for option, (default, _) in SETS.items()
        if option in given and given[option] != saved.get(option, default)
    }
    return {**saved, **set_flags(changed), **given}
