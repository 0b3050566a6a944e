"""The command line: `python main.py --op_mode=train --env=PongNoFrameskip-v4`; `--help` lists all flags."""

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType


def leave(number: int, frame: FrameType | None) -> None:
    """CTRL+C or SIGTERM while nothing is started and nothing is made: there is nothing to clean up."""
    os._exit(0)


if __name__ == "__main__":  # and not in the workers, which import this file, too
    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # "save now", while there is nothing to save

from option_flags import Config
from options.command_line import HelpRequested, given_flags, help_text
from options.program import end, open_closed_streams
from options.rules import UsageError
from workers.failures import RunFailedError


def main(arguments: Sequence[str]) -> int:
    """Flags → configuration → training or a test; returns the exit code."""
    try:
        given = given_flags(arguments)
        mode = given.get("op_mode")
        config = None if mode in ("train_w_load", "test") and given.get("load_model_url") else Config.from_flags(given)
        # Loaded only now: a mistyped flag is answered at once, and workers, which import this file, are light.
        from evaluation.score_checkpoint import score_checkpoint
        from run_files.checkpoint import find_checkpoint
        from training.train import train
        from wrappers.atari import check_atari, make_atari

        parent = None
        if config is None:
            parent = find_checkpoint(str(given["load_model_url"]))
            saved = parent.played_options if mode == "test" else parent.options
            config = Config.from_flags({**saved, **given})
        check_atari(config.environment)
        if mode == "test":
            assert parent is not None
            score_checkpoint(config, make_atari, parent)
        else:
            train(config, make_atari, parent)
    except HelpRequested:
        print(help_text())
    except UsageError as error:
        print(f"main.py: {error}", file=sys.stderr)
        return 2
    except RunFailedError as error:
        print(f"main.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    open_closed_streams()
    end(main(sys.argv[1:]))
