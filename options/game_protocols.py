"""Protocols: the rules under which agents are trained and tested, each as the values of several flags at once."""

from collections.abc import Mapping
from typing import Any

# The values of a protocol's flags, where they are not given one by one. Those of "classic" are the defaults.
PROTOCOLS: Mapping[str, Mapping[str, Any]] = {
    # Mnih et al., 2015, and most published results of actor-critic agents.
    "classic": {
        "noop_threshold": 30,
        "episodic_life": True,
        "fire_on_reset": True,
        "repeat_action_probability": 0.0,
        "full_action_space": False,
        "max_game_frames": 108_000,
    },
    # Machado et al., 2018, with the length of a game of Dopamine: sticky actions are the only help and the only chance.
    "machado": {
        "noop_threshold": 0,
        "episodic_life": False,
        "fire_on_reset": False,
        "repeat_action_probability": 0.25,
        "full_action_space": True,
        "max_game_frames": 108_000,
    },
}
CLASSIC = "classic"  # also the protocol of runs of versions without this option


def protocol_flags(name: object) -> Mapping[str, Any]:
    """The flags of a protocol; none for a name that is no protocol, which the option's rule refuses."""
    return PROTOCOLS.get(name, {}) if isinstance(name, str) else {}
