"""The command line: `python main.py --op_mode=train --env=PongNoFrameskip-v4`; `--help` lists all flags."""

import sys
from collections.abc import Sequence

from option_flags import HelpRequested, UsageError, help_text, parse
from workers.messages import WorkersFailedError


def main(arguments: Sequence[str]) -> int:
    """Flags → configuration → training; returns the exit code."""
    try:
        config = parse(arguments)
        # Loaded only now: a mistyped flag is answered at once, and workers, which import this file again, stay light.
        from workers.training import train
        from wrappers.atari import check_atari, make_atari

        check_atari(config.environment)
        train(config, make_atari)
    except HelpRequested:
        print(help_text())
    except UsageError as error:
        print(f"main.py: {error}", file=sys.stderr)
        return 2
    except WorkersFailedError as error:
        print(f"main.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted before training began; nothing was started", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
