"""Trains Catch as main.py does Atari: `python -m tests.cluster.catch_main --cluster=… --…`."""

import sys
from collections.abc import Sequence

from machine.program import run_program
from machine.stop_signals import exit_on_signals

if __name__ == "__main__":
    exit_on_signals()

from option_flags import OPTIONS, Config
from options.command_line import given_flags
from options.rules import UsageError
from processes.pool import RunFailedError
from run_files.checkpoint import find_checkpoint
from tests.catch import make_catch
from tests.training.catch_runs import CATCH
from training.train import train


def main(arguments: Sequence[str]) -> int:
    given = given_flags(arguments, OPTIONS)
    try:
        parent = find_checkpoint(str(given["load_model_url"])) if given.get("load_model_url") else None
        before = {**CATCH, "console": "plain", "console_period": 0.5} if parent is None else parent.options
        train(Config.from_flags({**before, **given}), make_catch, parent)
    except (UsageError, RunFailedError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    run_program(main)
