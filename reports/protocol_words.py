"""The protocol of a run or test as a few words."""

from option_flags import OPTIONS, EnvironmentOptions
from options.environment_families import is_noframeskip
from options.game_protocols import protocol_flags
from options.rules import is_switch


def protocol_in_words(options: EnvironmentOptions, leave_out: tuple[str, ...] = ()) -> str:
    """`machado protocol with --noop_threshold=30`: its name, and the flags that differ from it.

    Empty for an environment without protocols.
    """
    if not is_noframeskip(options.env):
        return ""
    differing = [
        _written(name, getattr(options, name))
        for name, value in protocol_flags(options.protocol).items()
        if getattr(options, name) != value and name not in leave_out
    ]
    return f"{options.protocol} protocol" + (f" with {' '.join(differing)}" if differing else "")


def _written(name: str, value: object) -> str:
    """The flag as a word of a command line."""
    if is_switch(OPTIONS[name]):
        return f"--{name}" if value else f"--no{name}"
    return f"--{name}={value}"
