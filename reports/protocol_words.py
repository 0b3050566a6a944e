"""The protocol of a run or test as a few words."""

from option_flags import EnvironmentOptions
from options.command_line import flag_words
from options.presets import is_noframeskip, preset


def protocol_in_words(options: EnvironmentOptions, leave_out: tuple[str, ...] = ()) -> str:
    """`machado protocol with --noop_threshold=30`: its name, and the flags that differ from it.

    Empty for an environment without protocols.
    """
    if not is_noframeskip(options.env):
        return ""
    differing = {
        name: getattr(options, name)
        for name, value in preset("protocol", options.protocol).items()
        if getattr(options, name) != value and name not in leave_out
    }
    return f"{options.protocol} protocol" + (f" with {' '.join(flag_words(differing))}" if differing else "")
