"""Sample Factory's APPO on an Atari game, as its `sf_examples/atari` runs it.

Network, losses, schedule and preprocessing are those of the example. What is set for few cores: as many groups of
games as cores instead of 8, with 8 games together as in the example; each plays one half of its games while the other
half waits for actions. With one or two cores, one process plays and learns in turn (`serial_mode`), whose updates use
all cores. With more, the games go on during updates (`async_rl`), as in Sample Factory's own example of Atari with
EnvPool: the learner computes with one thread only, so all other cores would wait for it.
"""

import os
import sys

from ale_py.registration import register_v0_v4_envs
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.train import make_runner
from sf_examples.atari.atari_utils import ATARI_ENVS
from sf_examples.atari.train_atari import make_atari_env, parse_atari_args, register_env

from tests.benchmarks.peer_programs.progress import Arguments, Progress, parse_arguments, usable_cores

FRAME_SKIP = 4
GAMES_TOGETHER = 8
FEW_CORES = 2
EXAMPLE_FRAMES = 10_000_000  # over which the example lowers its learning rate
FASTEST = 2500  # agent steps a second; a run must not end by its frames before its time is over


def make_env(name, cfg, env_config, render_mode=None):  # type: ignore[no-untyped-def]
    """The example's environment. With this version of Gymnasium, ale-py does not register its games by itself."""
    register_v0_v4_envs()  # type: ignore[no-untyped-call]
    return make_atari_env(name, cfg, env_config, render_mode)


class Reporting(AlgoObserver):  # type: ignore[misc]
    """Writes the progress. Returns come from the wrapper around the bare game, inside clipping and episodic life."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_init(self, runner: Runner) -> None:
        runner.register_episodic_stats_handler(self._episode)

    def _episode(self, runner: Runner, message, policy) -> None:  # type: ignore[no-untyped-def]
        found = message["episodic"].get("RecordEpisodeStatistics_reward")
        if found is not None:
            self._progress.finished([found.item() if hasattr(found, "item") else found])

    def on_training_step(self, runner: Runner, iteration: int) -> None:
        self._progress.report(sum(runner.env_steps.values()) // FRAME_SKIP)


def command_line(given: Arguments) -> list[str]:
    cores = usable_cores()
    frames = max(EXAMPLE_FRAMES, int(FRAME_SKIP * FASTEST * given.seconds))
    name = next(spec.name for spec in ATARI_ENVS if spec.env_id == f"{given.game}NoFrameskip-v4")
    return [
        *("--algo=APPO", f"--env={name}", f"--seed={given.seed}", "--device=cpu"),
        *(f"--train_dir={given.scratch}", "--experiment=run", "--with_wandb=False"),
        *(f"--train_for_env_steps={frames}", f"--train_for_seconds={int(given.seconds)}"),
        *(f"--num_workers={cores}", f"--num_envs_per_worker={max(2, GAMES_TOGETHER // cores)}"),
        *("--worker_num_splits=2", f"--serial_mode={cores <= FEW_CORES}", f"--async_rl={cores > FEW_CORES}"),
        f"--default_niceness={os.nice(0)}",  # it sets the priority of its processes itself, otherwise to 0
    ]


def main() -> None:
    given = parse_arguments()
    progress = Progress(given.folder)
    for spec in ATARI_ENVS:
        register_env(spec.name, make_env)
    _, runner = make_runner(parse_atari_args(command_line(given)))
    runner.register_observer(Reporting(progress))
    runner.init()
    sys.exit(runner.run())


if __name__ == "__main__":
    main()
