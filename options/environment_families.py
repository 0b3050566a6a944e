"""Families of environments, told apart by their ids: the defaults of each, and which options have a meaning in it."""

from collections.abc import Mapping
from typing import Any

from options.command_line import flag_words
from options.rules import UsageError

NATIVE = "native"  # the value of --frame_scale_resolution that leaves pictures in their own size

# Atari games with Gymnasium's own ids skip frames themselves, and repeat actions by chance as their id says.
ALE_DEFAULTS: Mapping[str, Any] = {
    "skipped_frames": 1,
    "noop_threshold": 0,
    "episodic_life": False,
}
OTHER_DEFAULTS: Mapping[str, Any] = {
    "skipped_frames": 1,
    "frames_stacked": 1,
    "grayscaling_frames": False,
    "frame_scale_resolution": NATIVE,
    "noop_threshold": 0,
    "episodic_life": False,
    "reward_clipping_method": "none",
}

# Options of which only games with a NoFrameskip id can have other values than these.
ONLY_NOFRAMESKIP: Mapping[str, Any] = {
    "protocol": "classic",
    "full_action_space": False,
    "noop_threshold": 0,
    "episodic_life": False,
    "fire_on_reset": True,
    "fire_on_life_loss": False,
    "interaction": "turns",
}


def is_noframeskip(env: str) -> bool:
    """Whether the id is one of the Atari games that this platform makes itself, such as PongNoFrameskip-v4."""
    return "NoFrameskip" in env and ":" not in env and "/" not in env


def defaults_in(given: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that depend on the environment, where they differ from the declared ones.

    `given` are the flags that are set. A wrong value of `env` is left to its rule.
    """
    env = given.get("env")
    if not isinstance(env, str) or is_noframeskip(env):
        return {}
    return dict(ALE_DEFAULTS if env.rpartition(":")[2].startswith("ALE/") else OTHER_DEFAULTS)


def check_family(values: Mapping[str, Any]) -> None:
    """Raise a UsageError if an option has a value without meaning in this environment."""
    env = values["env"]
    if not is_noframeskip(env):
        for name, value in ONLY_NOFRAMESKIP.items():
            if values[name] != value:
                (right,) = flag_words({name: value})
                raise UsageError(
                    f"--{name}={_written(values[name])} is only for Atari games whose id ends in NoFrameskip-v4, not "
                    f"for --env={env}; {right} would be right."
                )
    elif values["frame_scale_resolution"] == NATIVE:
        raise UsageError(
            f"--frame_scale_resolution={NATIVE} has no meaning for --env={env}; 210,160, the size of most Atari "
            "screens, would be right."
        )


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
