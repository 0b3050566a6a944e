"""What a run prints before it starts and after it ends."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from machine.machine_setup import Machine
from option_flags import Config
from replay.unroll_layout import UnrollLayout
from reports.unused_options import unused_in_training
from training.checkpoint_saver import Saver
from training.memory_budget import ReplayMemory
from training.progress import Progress
from training.run_setup import KEEPS_THEM_FRESH, OLD


def header(
    config: Config, folder: Path, machine: Machine, layout: UnrollLayout, memory: ReplayMemory, planned_updates: int
) -> list[str]:
    """What a run says of itself before it starts."""
    precision = str(machine.precision).removeprefix("torch.")
    shares = [
        f"{share} {replay.type}" for replay, share in zip(config.replay.replays, config.replay.shares, strict=True)
    ]
    environments = machine.worker_count * config.workers.envs_per_worker
    waiting = environments * machine.slots_per_worker  # unrolls that may be played before one is learned from
    age = 0 if config.run.reproducible else round(waiting / config.fresh_unrolls_per_update)
    return [
        f"{config.environment.env}, {layout.action_count} actions, seed {config.run.seed}, results in {folder}",
        f"learner on {machine.device} in {precision} with {machine.learner_threads} thread(s); "
        f"{machine.worker_count} workers × {config.workers.envs_per_worker} environments = {environments}",
        f"batch of {config.replay.batch_size} unrolls × {layout.unroll_length} steps: {' + '.join(shares)}; "
        f"{config.network.network}{' with LSTM' if layout.lstm_size else ''}, {planned_updates:,} updates planned",
        *memory.described(),
        *(
            [f"where the learner needs all workers, unrolls may be {age} updates old; {KEEPS_THEM_FRESH}"]
            if age >= OLD
            else []
        ),
        *unused_in_training(config),
    ]


def summary(folder: Path, progress: Progress, saver: Saver, is_over: bool, held_back_by: str) -> Sequence[str]:
    """What a run says of itself at its end."""
    reached = "finished" if is_over else "stopped"
    mean = (
        "no game ended" if progress.return_mean is None else f"mean return of the last games {progress.return_mean:.2f}"
    )
    steps = progress.agent_steps + max(progress.agent_steps, saver.config.steps_to_learn)
    more = "" if progress.unrolls_left else f" --environment_max_steps={steps}"
    if not progress.has_learned:
        held_back_by = f"nothing was learned: a first update takes {saver.config.steps_to_learn:,} agent steps"
    speed = progress.agent_steps / max(progress.seconds, 1e-9)
    go_on = f"go on with: python main.py --op_mode=train_w_load --load_model_url={shlex.quote(str(folder))}{more}"
    return [
        f"{reached} at {progress.agent_steps:,} agent steps ({progress.frames:,} frames) and {progress.updates:,} "
        f"updates after {progress.seconds:,.0f} s, {speed:,.0f} steps/s; {mean}",
        *([held_back_by] if held_back_by else []),
        f"metrics.jsonl, episodes.csv and checkpoints are in {folder}; saving took {saver.seconds:.1f} s",
        go_on if saver.saved_updates >= 0 else "nothing could be saved, so there is nothing to go on from",
    ]
