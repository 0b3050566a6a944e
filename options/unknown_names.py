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
