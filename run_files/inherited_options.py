"""What a run or a test that begins with a checkpoint takes over from it, and which flags fit it."""

from collections.abc import Mapping
from typing import Any

from option_flags import Config, preset
from options.rules import UsageError
from run_files.checkpoint import NETWORK_FLAGS, Checkpoint

ENVIRONMENT_FLAGS = ("env", "env_kwargs", "env_wrapper", "largest_pixel")
# Flags that the network and the unrolls depend on: a resumed run or a test cannot change them.
FIXED_FLAGS = ("env", *NETWORK_FLAGS, "full_action_space", "largest_pixel")


def inherited_options(checkpoint: Checkpoint, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command line's checkpoint; `given` are those on the command line itself.

    Raises UsageError if they cannot go together, before one is blamed that nobody has typed.
    """
    saved, env = checkpoint.options, given.get("env")
    if given.get("load_weights_only"):
        of_environment = () if "env" in given else ENVIRONMENT_FLAGS
        return {name: saved[name] for name in (*NETWORK_FLAGS, "feature_out_layer_size", *of_environment)}
    if env not in (None, saved["env"]):
        raise does_not_fit(f"--env={env}", saved["env"], given["op_mode"])
    return checkpoint.played_options if given["op_mode"] == "test" else saved


def check_playable(config: Config, checkpoint: Checkpoint) -> None:
    """Refuse flags that do not fit the checkpoint's network."""
    chosen, options = config.flags(), checkpoint.options
    for name in NETWORK_FLAGS if config.run.load_weights_only else FIXED_FLAGS:
        saved = options[name]
        if chosen[name] != saved:
            flag, protocol = f"--{name}={chosen[name]}", chosen["protocol"]
            if protocol != options["protocol"] and name in preset("protocol", protocol):
                flag = f"--protocol={protocol} with its {flag}"
            raise does_not_fit(flag, saved, config.run.op_mode)


def does_not_fit(flag: str, saved: object, mode: str) -> UsageError:
    """The error for a flag with another value than the checkpoint's."""
    instead = "" if mode == "test" else ", or start a new run with --op_mode=train"
    return UsageError(f"{flag} does not fit a checkpoint with {saved}; leave the flag out{instead}.")


def check_resumable(config: Config, checkpoint: Checkpoint) -> None:
    """Refuse flags that do not fit the checkpoint's network, and a run that is already complete."""
    check_playable(config, checkpoint)
    complete = why_complete(config, checkpoint)
    if complete is not None:
        raise UsageError(complete)


def why_complete(config: Config, checkpoint: Checkpoint) -> str | None:
    """A sentence about the flag whose end the checkpoint has reached. None if the run can go on."""
    steps, goal = config.run.environment_max_steps, config.run.goal
    if checkpoint.agent_steps >= steps:
        return (
            f"--environment_max_steps={steps} is already reached: the checkpoint has {checkpoint.agent_steps} agent "
            "steps; a larger number would be right."
        )
    if goal is not None and checkpoint.ended_at(goal):
        return f"{goal.flag} is already reached: the run ended at it; a larger number would be right."
    return None
