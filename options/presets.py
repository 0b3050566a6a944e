"""Presets: values of several options at once, chosen by --protocol, --settings, --loss and the kind of environment.

Each table holds what differs from the declared defaults. `option_flags.preset` adds those.
"""

from collections.abc import Mapping
from typing import Any

CLASSIC, VTRACE = "classic", "vtrace"
AUTO, STANDARD, ATARI_GPU = "auto", "standard", "atari_gpu"
NUMBERS, SMALL_PICTURES, CONTINUOUS = "numbers", "small_pictures", "continuous"
NATIVE = "native"  # the value of --frame_scale_resolution that leaves pictures in their own size
FRESH_ALONE = '[{"type": "queue", "capacity": 1, "sample_ratio": 1.0}]'  # of --replay_parameters: without a replay

# Each unroll is used several times, as by PPO.
_IMPACT: Mapping[str, Any] = {
    "loss": "impact",
    "proximal_loss_weight": 0.0,  # the clip bounds how far the policy moves, as in the paper
    "optimizer": "adam",
    "envs_per_worker": 8,
    "replay_parameters": FRESH_ALONE,
    "impact_uses": 8,
    "entropy_loss_weight": 0.0,
    "popart": True,
}

# Options by the values of the option that sets them, where they are not given one by one.
PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    # The rules under which agents are trained and tested.
    "protocol": {
        # Mnih et al., 2015, and most published results of actor-critic agents.
        CLASSIC: {},
        # Machado et al., 2018, with the length of a game of Dopamine: sticky actions are the only help and chance.
        "machado": {
            "noop_threshold": 0,
            "episodic_life": False,
            "fire_on_reset": False,
            "repeat_action_probability": 0.25,
            "full_action_space": True,
            "max_game_frames": 108_000,
        },
    },
    # What suits a kind of environment on a kind of machine; `settle_settings` chooses for auto.
    "settings": {
        AUTO: {},
        STANDARD: {},
        # A GPU updates faster than the cores play, so each step is learned from four times. The entropy bonus and the
        # proximal loss apply to fresh unrolls and are divided by the whole batch, so they are large here. GPUs come
        # with many workers: with few environments each, the policy lag stays small.
        ATARI_GPU: {
            "envs_per_worker": 4,
            "r_f_steps": 20,
            "batch_size": 16,
            "replay_parameters": (
                '[{"type": "queue", "capacity": 1, "sample_ratio": 0.25},'
                ' {"type": "standard", "capacity": 1000, "sample_ratio": 0.75}]'
            ),
            "lr": 7e-4,
            "entropy_loss_weight": 0.012,
            "proximal_loss_weight": 0.2,
        },
        # Steps and updates cost microseconds: each step is learned from eight times.
        NUMBERS: {**_IMPACT, "r_f_steps": 32, "batch_size": 8, "impact_batches": 2},
        SMALL_PICTURES: {
            "envs_per_worker": 32,
            "r_f_steps": 20,
            "batch_size": 16,
            "replay_parameters": FRESH_ALONE,
            "optimizer": "adam",
            "lr": 3e-3,
            "gradient_clip_by_norm_threshold": 1.0,
            "entropy_loss_weight": 0.005,
        },
        CONTINUOUS: {
            **_IMPACT,
            "r_f_steps": 80,
            "batch_size": 2,
            "impact_batches": 8,
            "impact_epsilon": 0.2,
            "lr": 3e-4,
            "network": "separate_mlp",
            "spread_starts": True,
        },
    },
    "loss": {VTRACE: {}, "impact": {"proximal_loss_weight": _IMPACT["proximal_loss_weight"]}},
}
# What a user is told of the settings that --settings=auto chooses.
WHAT_FOR: Mapping[str, str] = {
    ATARI_GPU: "which learn from each step four times",
    NUMBERS: "for observations without a picture",
    SMALL_PICTURES: "for small pictures",
    CONTINUOUS: "for real-valued actions",
}
# The values of other options with which the settings for a GPU were tried.
TRIED_WITH_GPU: Mapping[str, Any] = {
    "cluster": None,
    "loss": VTRACE,
    "reproducible": False,
    "use_lstm": False,
    "interaction": "turns",
}
# Atari games with Gymnasium's own ids skip frames themselves, and repeat actions by chance as their id says.
ALE_DEFAULTS: Mapping[str, Any] = {"skipped_frames": 1, "noop_threshold": 0, "episodic_life": False, "fps": 0.0}
OTHER_DEFAULTS: Mapping[str, Any] = {
    **ALE_DEFAULTS,
    "frames_stacked": 1,
    "grayscaling_frames": False,
    "frame_scale_resolution": NATIVE,
    "reward_clipping_method": "none",
}
# MiniGrid and BabyAI: their pictures hold codes up to 10 and not up to 255, and the text of the mission is left out.
MINIGRID_DEFAULTS: Mapping[str, Any] = {
    **OTHER_DEFAULTS,
    "env_wrapper": "minigrid.wrappers:ImgObsWrapper",
    "largest_pixel": 10,
}
# Options of which only games with a NoFrameskip id can have other values than these.
ONLY_NOFRAMESKIP: Mapping[str, Any] = {
    "protocol": CLASSIC,
    "full_action_space": False,
    "noop_threshold": 0,
    "episodic_life": False,
    "fire_on_reset": True,
    "fire_on_life_loss": False,
}


def is_noframeskip(env: str) -> bool:
    """Whether the id is one of the Atari games that this platform makes itself, such as PongNoFrameskip-v4."""
    return "NoFrameskip" in env and ":" not in env and "/" not in env


def defaults_of_environment(env: object) -> Mapping[str, Any]:
    """The defaults of an environment that differ from the declared ones; a wrong value of --env is left to its rule."""
    if not isinstance(env, str) or is_noframeskip(env):
        return {}
    name = env.rpartition(":")[2]
    if name.startswith(("MiniGrid-", "BabyAI-")):
        return MINIGRID_DEFAULTS
    return ALE_DEFAULTS if name.startswith("ALE/") else OTHER_DEFAULTS
