"""Error messages for names that do not exist, with the closest name that does."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import Field
from typing import Any

from options.rules import UsageError, is_switch

REPLACED_FLAGS = {
    "multiprocessing_backend": "workers are always spawned processes",
    "learner_thread_count": "there is one learner; --learner_threads sets its CPU threads",
    "undefok": "unknown flags are always refused",
    # Flags of the earlier platform:
    "load_optimizer_save": "a resumed run continues with the saved optimizer; with --load_weights_only it is new",
    "clip_rewards": "--reward_clipping_method sets how rewards are clipped, and none leaves them as they are",
    "debug": "errors of worker processes are always shown with their traceback",
    "actions_count": "the number of actions comes from the environment",
    "observation_shape": "it follows from --frame_scale_resolution, --frames_stacked and --grayscaling_frames",
    "shared_queue_size": "--slots_per_worker sets how far workers may be ahead of the learner",
    "replay_writer_queue_size": "unrolls go from shared memory to the replays without a queue between them",
    "discarding_strategy": 'a full replay replaces its oldest unroll; see "insert_strategy" in docs/replays.md',
    "caching_threads": "--caching mixes batches in one background thread",
    "cache_sample_size": "--cache_output_buffer_size sets how many batches are mixed ahead",
    "verbose_worker_out_int": "--console and --console_period set what is printed, and how often",
    "verbose_learner_out_int": "--console and --console_period set what is printed, and how often",
    "basic_verbose": "--console sets what is printed",
    "worker_verbose": "--console sets what is printed",
    "background_save": "a checkpoint is written between two updates; it takes a fraction of a second",
    "use_additional_scaling_FC_layer": "--feature_out_layer_size sets the size of the features that replays compare",
}
NAMES_ELSEWHERE = {  # the names of some options in other RL platforms
    "entropy": "entropy_loss_weight",
    "entropy_coef": "entropy_loss_weight",
    "learning_rate": "lr",
    "num_envs": "envs_per_worker",
    "num_workers": "worker_count",
    "total_steps": "environment_max_steps",
    "total_timesteps": "environment_max_steps",
    "unroll_length": "r_f_steps",
}


def unknown_flag(name: str, options: Mapping[str, Field[Any]]) -> UsageError:
    """The error for a flag that is not among `options`."""
    if name in REPLACED_FLAGS:
        return UsageError(f"--{name} has no meaning here: {REPLACED_FLAGS[name]}.")
    switch = name.removeprefix("no_")
    if switch != name and switch in options and is_switch(options[switch]):
        return UsageError(f"--{name} is not a known flag; did you mean --no{switch}?")
    if NAMES_ELSEWHERE.get(name) in options:
        return UsageError(f"--{name} is not a known flag; did you mean --{NAMES_ELSEWHERE[name]}?")
    return UsageError(f"--{name} is not a known flag{did_you_mean(name, options, dashes='--')}")


def did_you_mean(name: str, names: Iterable[str], dashes: str = "", quote: str = "") -> str:
    """The end of a sentence: a question with the closest name, or a full stop if no name is close."""
    matches = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {quote}{dashes}{matches[0]}{quote}?" if matches else "."
