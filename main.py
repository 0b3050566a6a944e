"""The command line: `python main.py --op_mode=train --env=PongNoFrameskip-v4`; `--help` lists all flags."""

from machine.stop_signals import exit_on_signals

if __name__ == "__main__":
    exit_on_signals()

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from learners.rank import SILENCE_FACTOR, learner_rank
from machine.capacity import usable_cores
from machine.program import explained, run_program
from option_flags import OPTIONS, TOPICS, Config, merged
from options.command_line import FlagFile, given_flags
from options.presets import STANDARD
from options.rules import counted
from processes.fork_server import FORK_SERVER, load_early
from processes.pool import RunFailedError
from wrappers.any_environment.faults import EnvironmentFaultError

USAGE = """\
usage: python main.py [--name=value ...] [--flagfile=path]

  python main.py --op_mode=train                                         train on Pong
  python main.py --env=BreakoutNoFrameskip-v4 --seed=1                   another game, a fixed seed
  python main.py --env=CartPole-v1                                       any Gymnasium environment
  python main.py --flagfile=my.flags --lr=3e-4                           flags from a file
  python main.py --op_mode=train_w_load --load_model_url=results/<run>   continue a run
  python main.py --op_mode=train_w_load --load_model_url=results/<run> --load_weights_only
                                                                         start with its weights
  python main.py --op_mode=test --load_model_url=results/<run> --render  score a policy, film it
  python main.py --op_mode=play --demonstrations=games                   play yourself, for a run to learn from

Switches are written --name or --noname. A dash in a name counts as an underscore."""

# Agent steps a second of a game of Atari with the defaults (docs/performance.md). One learner keeps so many cores busy.
STEPS_PER_CORE, CORES_IN_USE = 1_000, 4


def main(arguments: Sequence[str]) -> int:
    """Flags → configuration → training, or a test of a saved policy; returns the exit code."""
    try:
        return explained(lambda: run(arguments), USAGE, (*TOPICS.values(), FlagFile), "main.py")
    except EnvironmentFaultError as error:
        print(f"{error.report}main.py: the environment has a fault, see above.", file=sys.stderr)
        return 1
    except RunFailedError as error:
        print(f"main.py: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        FORK_SERVER.close()


def run(arguments: Sequence[str]) -> int:
    given = given_flags(arguments, OPTIONS)
    mode = given.get("op_mode")
    rank = None if mode == "test" else learner_rank()
    # Options that are not on the command line come from the checkpoint, if there is one; it is read below.
    config = None if mode in ("train_w_load", "test") and given.get("load_model_url") else Config.from_flags(given)
    if rank is None and given.get("console") != "off":
        with suppress(OSError):  # of a pipe without a reader, or a full disk: training goes on
            print(first_line(given, config), flush=True)  # at once: what is imported next takes seconds
    if rank is None and mode != "play":  # one of several learners first takes its part of the cores
        load_early()
    # Imported here, not at the top: a mistyped flag is reported without the time of these imports.
    from agents.spaces import settle_fps, suited_settings
    from evaluation.play import play
    from evaluation.score_checkpoint import score_checkpoint
    from learners.group import connect
    from learners.rank import end_with_launcher
    from learners.shares import settle_learners
    from machine.machine_setup import settle_settings
    from run_files.checkpoint import find_checkpoint, inherited_options, refusing_foreign_content
    from training.train import train
    from wrappers.make_environment import check_environment, make_environment

    parent, flags = None, given
    if config is None:
        parent = find_checkpoint(str(given["load_model_url"]))
        with refusing_foreign_content(parent):
            flags = merged(inherited_options(parent, given), given)
            config = Config.from_flags(flags)
    spec = check_environment(config.environment, films=config.test.render or mode == "play")
    if mode == "test":
        assert parent is not None  # a test without --load_model_url is refused by Config
        score_checkpoint(settle_fps(config, spec), make_environment, parent)
        return 0
    if mode == "play":
        play(config, make_environment)
        return 0
    notes: list[str] = []
    config = settle_learners(config, rank)
    if parent is None or config.run.load_weights_only:
        config, notes = settle_settings(config, flags, STANDARD if spec is None else suited_settings(spec))
    config = settle_fps(config, spec)
    if rank is None and config.learners.learners > 1:
        return launch_learners(config, given)
    end_with_launcher()
    with closing(connect(rank, config)) as learners, learners.guarded():
        train(config, make_environment, parent, notes, learners)
    return 0


def first_line(given: Mapping[str, Any], config: Config | None) -> str:
    """What the program is about to do; without any flag also for how long. `config` is that of a new run."""
    if config is None:
        doing = "testing" if given.get("op_mode") == "test" else "starting from"
        return f"{doing} {given['load_model_url']}"
    if config.run.op_mode == "play":
        return f"playing {config.environment.env}; close the window to end"
    env, steps = config.environment.env, config.run.environment_max_steps
    line = f"training on {env} for {steps:,} agent steps; CTRL+C saves the run and ends it"
    if given:
        return line
    cores = usable_cores()
    minutes = steps / (min(cores, CORES_IN_USE) * STEPS_PER_CORE * 60)
    on = f"on {counted(cores, 'core')} without a GPU, and less with one"
    return f"{line}. This takes about {minutes:.0f} minutes {on}; --help shows what else there is"


def launch_learners(config: Config, given: Mapping[str, Any]) -> int:
    """Start several learners on this machine; returns the exit code."""
    from learners.launcher import Launcher

    FORK_SERVER.close()  # each learner has its own
    learners, restarts = config.learners.learners, config.learners.learner_restarts
    stable_seconds = 3 * SILENCE_FACTOR * config.workers.worker_timeout  # longer than it takes to notice a hang
    return Launcher(learners, restarts, stable_seconds).run(given)


if __name__ == "__main__":
    run_program(main)
