"""Options that were set, but have no effect on this run or test."""

from typing import Any

from option_flags import OPTIONS, Config, defaults_beside
from run_files.checkpoint import POLICY_OPTIONS

TEST_OPTIONS = (
    *("op_mode", "load_model_url", "test_episode_count", "test_policy", "render"),
    *("seed", "worker_count", "worker_timeout", "console", "console_period"),
)


def unused_in_training(config: Config) -> list[str]:
    """A line for each option that was set, but needs another option to have an effect."""
    return [
        f"--{name} has no effect without {need.words}"
        for name in changed_options(config)
        for need in OPTIONS[name].metadata["needs"]
        if not need.is_met(config)
    ] + [
        f"the {replay.type} replay draws like standard: nothing is ranked with {why}"
        for replay, share in zip(config.replay.replays, config.replay.shares, strict=True)
        if (why := replay.why_never_ranked(share))
    ]


def unused_in_test(config: Config) -> list[str]:
    """A line with the options that were set, but have an effect on training only; no line if there are none."""
    names = [f"--{name}" for name in changed_options(config) if name not in (*POLICY_OPTIONS, *TEST_OPTIONS)]
    return [f"without effect on a test: {', '.join(names)}"] if names else []


def changed_options(config: Config) -> dict[str, Any]:
    """The options that differ from the defaults of their environment, their protocol and their loss, by name."""
    flags = config.flags()
    defaults = defaults_beside(flags)
    return {name: value for name, value in flags.items() if value != defaults[name]}
