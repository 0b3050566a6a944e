"""What a run or a test that begins with a checkpoint takes over from it."""

from collections.abc import Mapping
from typing import Any

from option_flags import OPTIONS
from options.presets import NATIVE, is_noframeskip
from options.rules import UsageError
from run_files.checkpoint import Checkpoint, does_not_fit


def inherited_options(checkpoint: Checkpoint, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command line's checkpoint; `given` are those on the command line itself.

    Raises UsageError if they cannot go together, before one is blamed that nobody has typed.
    """
    saved, env = checkpoint.options, given.get("env")
    if given.get("load_weights_only"):
        _check_weights_fit(saved, given)
        return checkpoint.options_of_new_run(given)
    if env not in (None, saved["env"]):
        raise does_not_fit(f"--env={env}", saved["env"], given["op_mode"])
    if given["op_mode"] == "test":
        return checkpoint.played_options
    newer = next((name for name in saved if name not in OPTIONS), None)
    if newer is not None:
        raise UsageError(
            f"--load_model_url: {checkpoint.path} is of a newer version of this program: it has --{newer}, which this "
            "version does not know."
        )
    return saved


def _check_weights_fit(saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    env, shape = given.get("env"), "frame_scale_resolution"
    if isinstance(env, str) and is_noframeskip(env) and shape not in given and saved[shape] == NATIVE:
        raise UsageError(
            f"--env={env} does not fit the weights of {saved['env']}, whose observations have their own size "
            f"(--{shape}={NATIVE}); weights of an Atari game would be right."
        )
