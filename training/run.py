"""A training run as an object: what its parts share, and how it is checked and prepared before it starts."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from agents.learner import Learner
from agents.network import ActorCritic
from agents.spaces import read_spec, unroll_layout
from cluster.check import check_cluster, check_combinations
from learners.agreement import Agreement, GroupAgreement
from learners.group import LearnerGroup, OneLearner, agreed
from learners.shares import folder_of, parent_of, part_of, use_own_cores
from machine.capacity import bytes_of_processes, check_memory, format_bytes
from machine.machine_setup import Machine, prepare_machine, settle_seed
from machine.stop_signals import StopSignals
from option_flags import Config
from options.learning_options import ONCE
from options.presets import NATIVE
from options.rules import UsageError, counted
from replay.mix import Mix
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from reports.console import Console
from reports.hints import changed_options
from reports.sinks import check_sinks
from run_files.checkpoint import Checkpoint, check_playable, check_resumable, refusing_foreign_content
from run_files.run_folder import CHECKPOINTS, CONFIG, create_run_folder, write_json
from training.progress import Progress
from training.resume import Resume, load_weights, plan_resume, plan_updates
from workers.actors import Actors
from workers.realtime.timing import check_realtime
from wrappers.environment import EnvironmentSpec, MakeEnvironment

LARGE_PICTURE = 4 * 84 * 84  # pixels, for a network made for 84×84
OF_PICTURES = ("frames_stacked", "grayscaling_frames", "frame_scale_resolution", "largest_pixel")
COMPRESSED = 0.04  # of the bytes of pictures in compressed replays; 0.02 to 0.05 in games of Atari

Status = Literal["running", "finished", "stopped", "failed"]


class Run:
    """What makes, reports, saves, evaluates or sums up a run takes it as a whole.

    `set_up_run` checks it and fills it up to `progress`. `train` adds the rest in this order.
    """

    config: Config  # with a seed
    part: Config  # of this learner; the same as `config` if there is only one
    machine: Machine
    layout: UnrollLayout
    network: ActorCritic
    first_worker: int  # the number of this learner's first worker among those of all learners
    notes: list[str]  # for the user: the memory of the replays, and what is unusual about the environment
    resume: Resume  # what it begins with
    progress: Progress

    demonstrations: Rows  # unrolls of recorded games, until the mix has them
    stop: StopSignals
    folder: Path
    console: Console
    learner: Learner
    mix: Mix
    actors: Actors

    def __init__(self, make_environment: MakeEnvironment, learners: OneLearner) -> None:
        self.make_environment = make_environment
        self.learners, self.rank = learners, learners.rank  # the connection with the other learners
        # One learner agrees with itself.
        self.agreement = GroupAgreement(learners) if isinstance(learners, LearnerGroup) else Agreement()
        self.status: Status = "running"
        self.summary_written_at = 0.0
        self.last_lines: list[str] = []  # filled when training has ended; printed after all other messages

    def announce(self, sentence: str) -> None:
        """Print a sentence, and keep it in the run's folder."""
        self.console.message(sentence)


def set_up_run(
    config: Config,
    make_environment: MakeEnvironment,
    source: Checkpoint | None = None,
    learners: OneLearner | None = None,
) -> Run:
    """Choose what the flags leave open, and raise a UsageError for what cannot work on this machine.

    `source` is the checkpoint that is resumed. With --load_weights_only, a new run starts from its weights.
    """
    run = Run(make_environment, learners or OneLearner())
    weights_only, rank = config.run.load_weights_only, run.rank
    if source is not None:
        (check_playable if weights_only else check_resumable)(config, source)
    if rank.is_first:  # the others have none, and may be on machines that cannot
        check_sinks(config.report)
    if config.cluster.cluster is not None:
        check_combinations(config)
        check_cluster(config.cluster.cluster)
    run.config = config = agreed(settle_seed(config), run.learners)
    torch.manual_seed(config.seed)  # that of the first learner
    use_own_cores(rank)
    run.part = part_of(config, rank)
    run.machine = prepare_machine(run.part)
    spec = read_spec(config, make_environment)
    run.layout = unroll_layout(config, spec)
    run.network = ActorCritic(config.network, run.layout, run.machine.precision)
    run.notes = [*plan_processes(run), *environment_notes(config, spec)]
    run.first_worker = sum(run.learners.of_all(run.machine.worker_count)[: rank.index])
    with refusing_foreign_content(source):
        run.resume = plan_start(run, source)
        run.progress = Progress(config, run.layout, rank, run.first_worker)
        if run.resume.progress is not None:
            run.progress.load_state_dict(run.resume.progress)
    # The others may have counted some steps more or fewer than the first one.
    run.resume.planned_updates, run.resume.schedule_updates = run.learners.from_first(
        (run.resume.planned_updates, run.resume.schedule_updates)
    )
    return run


def plan_start(run: Run, source: Checkpoint | None) -> Resume:
    """What the run begins with."""
    if source is None:
        return Resume(*plan_updates(None, run.config))
    if run.config.run.load_weights_only:
        return load_weights(source, run.network, run.config, run.layout)
    parent = parent_of(run.rank, source)
    return plan_resume(parent, run.network, run.config, run.layout, run.machine.worker_count)


def plan_processes(run: Run) -> list[str]:
    """Settle the inference processes of games in real time, and check that everything fits into the memory.

    Returns lines for the user.
    """
    part, layout, machine = run.part, run.layout, run.machine
    workers, games = machine.worker_count, part.workers.envs_per_worker
    inference, ms = check_realtime(part, layout, run.make_environment, workers, games, machine.worker_precision)
    run.machine = replace(machine, inference_processes=inference)
    of_replays, lines = memory_of_replays(part, layout)
    check_memory(bytes_of_processes(workers, games, layout.nbytes, inference), of_replays, run.rank.local_size)
    return [*lines, f"an inference for {counted(games, 'game')} takes {ms:.1f} ms"] if inference else lines


def memory_of_replays(config: Config, layout: UnrollLayout) -> tuple[int, list[str]]:
    """The bytes of full replays, and a line about them for the head of a run; none for queues alone.

    That of compressed replays is a guess.
    """
    options, uses = config.replay, config.batch_uses
    sizes = {True: 0, False: 0}  # unrolls in queues, and in the others
    for entry, share in zip(options.replays, options.shares, strict=True):
        sizes[entry.type == "queue"] += max(entry.capacity, share)
    if uses != ONCE:
        sizes[True] += uses.slots * sum(options.queue_shares)
    each, compressed = layout.nbytes, options.use_replay_compression
    if compressed:
        pictures = (layout.frame_stack + layout.unroll_length) * int(np.prod(layout.frame_shape))
        each -= int((1 - COMPRESSED) * pictures)
    needed, unrolls = sizes[True] * layout.nbytes + sizes[False] * each, sum(sizes.values())
    size = f"about {format_bytes(needed)} compressed" if compressed else format_bytes(needed)
    return needed, [f"replays: {unrolls:,} unrolls, {size}"] if sizes[False] else []


def environment_notes(config: Config, spec: EnvironmentSpec) -> list[str]:
    """Lines about options of pictures where there are none, about large pictures, and about what cannot be saved."""
    without_pictures = [] if spec.has_pictures else [name for name in OF_PICTURES if name in changed_options(config)]
    notes = [f"--{name} has no effect on observations without a picture" for name in without_pictures]
    height, width = spec.frame_shape[1:]
    if config.environment.frame_scale_resolution == NATIVE and height * width > LARGE_PICTURE:
        notes.append(
            f"the pictures have {width}×{height} pixels: with --frame_scale_resolution=84,84 the network is smaller, "
            "and the run much faster"
        )
    if config.run.reproducible and not spec.can_snapshot:
        notes.append(
            f"the state of {config.environment.env} cannot be saved (it needs methods snapshot and restore, and no "
            "sticky actions): a resumed run begins new episodes, so it differs from a run without a break"
        )
    return notes


@contextmanager
def folder_of_run(run: Run) -> Iterator[Path]:
    """The run's folder, which the first learner makes; or within it, the folder of another learner.

    A run that is refused before it has played leaves none.
    """
    learners, rank = run.learners, run.rank
    if rank.is_first:
        folder = make_run_folder(run)
        learners.tell_launcher(folder)
        learners.from_first(str(folder))
    else:
        folder = folder_of(rank, Path(learners.from_first(None)))
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        run.resume.copy_checkpoints(folder / CHECKPOINTS, run.config)
    try:
        yield folder
    except UsageError:
        if run.progress.agent_steps == run.progress.parent_steps:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def make_run_folder(run: Run) -> Path:
    """A new folder with config.json and a folder for checkpoints; a resumed run starts with its parent's checkpoint."""
    options, folder = run.config.run, None
    try:
        folder = create_run_folder(Path(options.results_dir), run.config.environment.env, time.time(), options.run_name)
        described = {
            "options": run.config.flags(),
            "machine": run.machine.described(),
            "network": run.network.torso_name,
            **run.resume.described(),
        }
        write_json(folder / CONFIG, described)
        (folder / CHECKPOINTS).mkdir()
        run.resume.copy_checkpoints(folder / CHECKPOINTS, run.config)
        return folder
    except OSError as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise UsageError(
            f"--results_dir={options.results_dir} cannot be written ({error.strerror}); "
            "a folder that you can write to would be right."
        ) from None
