"""What a run prints before it starts and after it ends."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from machine.machine_setup import Machine
from machine.program import command_of
from option_flags import Config
from options.rules import counted
from replay.unroll_layout import UnrollLayout
from reports.protocol_words import protocol_in_words
from reports.unused_options import unused_in_training

HIGH_LAG = 40  # updates; learning is measured with a policy lag of 3 to 15 only
LOWER_LAG = "a larger --batch_size or fewer --envs_per_worker would lower it"


class NetworkInUse(NamedTuple):
    """What --network and --precision have come to."""

    name: str
    precision: torch.dtype


def run_header(
    config: Config,
    folder: Path,
    machine: Machine,
    layout: UnrollLayout,
    network: NetworkInUse,
    memory: Sequence[str],
    planned_updates: int,
) -> list[str]:
    """The configuration in a few lines; `memory` are the lines about the memory of the replays."""
    precision = str(network.precision).removeprefix("torch.")
    shares = [
        f"{share} {replay.type}" for replay, share in zip(config.replay.replays, config.replay.shares, strict=True)
    ]
    environments = machine.worker_count * config.workers.envs_per_worker
    learners = config.learners.learners  # each has such workers
    waiting = learners * environments * machine.slots_per_worker  # unrolls that can be played ahead of the learners
    lag = 0 if config.run.reproducible else round(waiting / config.fresh_unrolls_per_update)
    warning = [f"if all workers are kept busy, policy lag may reach {lag} updates; {LOWER_LAG}"]
    subject = [config.environment.env, described_observations(layout), described_actions(layout)]
    subject += [protocol_in_words(config.environment)]
    subject += [f"seed {config.run.seed}", f"results in {folder}"]
    goal, window = config.run.stop_at_return, _games(config.report.avg_buff_size)
    return [
        ", ".join(filter(None, subject)),
        f"learner on {machine.device} in {precision} with {counted(machine.learner_threads, 'thread')}; "
        f"{counted(machine.worker_count, 'worker')} × {config.workers.envs_per_worker} environments = {environments}",
        f"batch of {config.replay.batch_size} unrolls × {config.replay.r_f_steps} steps: {' + '.join(shares)}; "
        f"{network.name}{' with LSTM' if config.network.use_lstm else ''}, "
        f"{_planned(config, planned_updates)}",
        *_interaction(config, machine),
        *_cluster(config),
        *([] if goal is None else [f"the run ends when the mean return of {window} reaches {goal:g}"]),
        *memory,
        *(warning if lag >= HIGH_LAG else []),
        *unused_in_training(config),
    ]


def _planned(config: Config, updates: int) -> str:
    too_short = updates == 1 and config.steps_to_learn > config.run.environment_max_steps
    if too_short and config.run.op_mode == "train":
        return f"no update, because the first one needs {config.steps_to_learn:,} agent steps"
    return f"{counted(updates, 'update')} planned"


def described_observations(layout: UnrollLayout) -> str:
    """Such as "sees 4 numbers" or "sees 4 pictures of 84×84×1 and 3 numbers"."""
    channels, height, width = layout.frame_shape
    pictures = counted(layout.frame_stack, "picture")
    parts = [f"{pictures} of {height}×{width}×{channels}"] if layout.has_pictures else []
    parts += [counted(layout.vector_size, "number")] if layout.vector_size else []
    return f"sees {' and '.join(parts)}"


def described_actions(layout: UnrollLayout) -> str:
    """Such as "6 actions", "choices of 3 and 2 actions" or "6 real-valued actions"."""
    sizes = [str(size) for size in layout.action_sizes]
    if layout.action_kind == "discrete":
        return f"{layout.action_count} actions"
    if layout.action_kind == "gaussian":
        return counted(len(sizes), "real-valued action")
    if len(set(sizes)) == 1:
        return f"{len(sizes)} choices of {sizes[0]} actions"
    return f"choices of {', '.join(sizes[:-1])} and {sizes[-1]} actions"


def _cluster(config: Config) -> list[str]:
    address = config.cluster.cluster
    plays = address is not None and config.learners.learners == 1
    return [] if not plays else [f"cluster at {address}: its other nodes play as they join"]


def _interaction(config: Config, machine: Machine) -> list[str]:
    """A line about games that do not wait for actions."""
    options = config.environment
    if options.interaction == "turns":
        return []
    if not options.in_real_time:
        return [
            f"{options.interaction} interaction: a decision every {options.frames_per_step} frames, which takes effect "
            f"{counted(options.action_delay, 'frame')} after its screen; idle action: {options.idle_action}"
        ]
    latency = config.realtime.inference_latency
    return [
        f"in real time at {config.realtime.fps:g} frames a second: each worker has "
        f"{counted(machine.inference_processes, 'inference process')}, staggered by {config.realtime.stagger}; "
        f"idle action: {options.idle_action}{'' if latency is None else f'; inference times {latency} ms'}"
    ]


class RunEnd(NamedTuple):
    """How a run ended."""

    folder: Path
    finished: bool
    agent_steps: int
    steps_left: bool  # whether --environment_max_steps is not reached
    goal: float | None  # the --stop_at_return that ended the run
    return_window: int  # number of games in the mean return, at most
    frames: int
    updates: int
    updates_made: int  # by this run itself, without those of the runs that it resumed from
    seconds: float
    return_mean: float | None
    games_without_score: int  # all games, if each of them had a return of 0
    steps_to_learn: int  # agent steps that a new run needs for its first update
    saving_seconds: float
    has_saved: bool
    bottleneck: str
    watt_hours: Mapping[str, float]  # energy by `cpu` and `gpu`, where it is measured


def run_ending(end: RunEnd) -> list[str]:
    """The last lines of a run; the very last one is the command that resumes it."""
    mean = "no game ended" if end.return_mean is None else f"mean return of the last games {end.return_mean:.2f}"
    bottleneck = end.bottleneck
    if not end.updates_made:
        bottleneck = f"nothing was learned: the first update needs {end.steps_to_learn:,} agent steps"
    speed = end.agent_steps / max(end.seconds, 1e-9)
    energy = " + ".join(f"{used:,.1f} Wh ({source.upper()})" for source, used in end.watt_hours.items())
    goal = [] if end.goal is None else [goal_reached(end.goal, end.return_window)]
    resume = go_on_command(end.folder, end.agent_steps, end.steps_to_learn, end.steps_left)
    return [
        f"{'finished' if end.finished else 'stopped'} at {end.agent_steps:,} agent steps ({end.frames:,} frames) and "
        f"{end.updates:,} updates after {end.seconds:,.0f} s, {speed:,.0f} steps/s; {mean}",
        *goal,
        *([never_scored(end.games_without_score)] if end.games_without_score else []),
        *([bottleneck] if bottleneck else []),
        *([f"energy {energy}"] if energy else []),
        f"metrics.jsonl, episodes.csv and checkpoints are in {end.folder}; saving took {end.saving_seconds:.1f} s",
        f"go on with: {resume}" if end.has_saved else "nothing could be saved, so the run cannot be resumed",
    ]


def goal_reached(goal: float | None, window: int) -> str:
    """Why a run with --stop_at_return has ended."""
    return f"the mean return of {_games(window)} reached --stop_at_return={goal:g}"


def never_scored(games: int) -> str:
    """What a run says in whose games nothing was ever scored."""
    counted = "the only game so far" if games == 1 else f"each of the {games:,} games so far"
    return (
        f"{counted} ended with a return of 0, and without rewards there is nothing to learn from; "
        'docs/tuning.md says what helps, under "Games without rewards"'
    )


def go_on_command(folder: Path, agent_steps: int, steps_to_learn: int, steps_left: bool) -> str:
    """The command that resumes a run; for twice as many steps if it has made all of them."""
    more_steps = agent_steps + max(agent_steps, steps_to_learn)
    more = "" if steps_left else f" --environment_max_steps={more_steps}"
    program = shlex.join(command_of("main.py"))
    return f"{program} --op_mode=train_w_load --load_model_url={shlex.quote(str(folder))}{more}"


def _games(count: int) -> str:
    return "the last game" if count == 1 else f"the last {count:,} games"
