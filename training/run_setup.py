"""Checks and prepares everything that a run needs before it starts; and creates its folder."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from agents.network import ActorCritic, make_network
from agents.spaces import check_spaces, read_spec, unroll_layout
from cluster.check import check_cluster, check_combinations
from learners.group import OneLearner, agreed
from learners.rank import tell_folder
from learners.shares import folder_of, parent_of, part_of, use_own_cores
from machine.machine_setup import Machine, prepare_machine, settle_seed
from option_flags import Config
from options.rules import UsageError
from replay.unroll_layout import UnrollLayout
from reports.sinks import check_sinks
from reports.unused_options import changed_options
from run_files.checkpoint import Checkpoint, refusing_foreign_content
from run_files.inherited_options import check_playable, check_resumable
from run_files.run_folder import CHECKPOINTS, CONFIG, create_run_folder, write_json
from training.initial_weights import InitialWeights
from training.memory_budget import plan_memory
from training.resume import Resume, plan_resume
from workers.open_unrolls import rounds_behind
from workers.realtime.requirements import check_realtime, open_unrolls
from wrappers.environment import EnvironmentSpec, MakeWatchedEnvironment

OF_PICTURES = ("frames_stacked", "grayscaling_frames", "frame_scale_resolution", "largest_pixel")


@dataclass(frozen=True)
class RunSetup:
    """A run that has been checked and can start."""

    config: Config  # with a seed
    part: Config  # of this learner; the same as `config` if there is only one
    machine: Machine
    layout: UnrollLayout
    network: ActorCritic
    notes: Sequence[str]  # for the user: the memory of the replays, and what is unusual about the environment
    weights: InitialWeights
    resume: Resume
    first_worker: int  # the number of this learner's first worker among those of all learners
    make_environment: MakeWatchedEnvironment
    learners: OneLearner  # the connection with the other learners


def set_up_run(
    config: Config,
    make_environment: MakeWatchedEnvironment,
    parent: Checkpoint | None,
    learners: OneLearner | None = None,
) -> RunSetup:
    """Choose what the flags leave open, and raise a UsageError for what cannot work on this machine.

    `parent` is the checkpoint that is resumed. With --load_weights_only, a new run starts from its weights.
    """
    learners = learners or OneLearner()
    source = None
    if parent is not None and config.run.load_weights_only:
        check_playable(config, parent)
        source, parent = parent, None
    elif parent is not None:
        check_resumable(config, parent)
    if learners.rank.is_first:  # the others have none, and may be on machines that cannot
        check_sinks(config.report)
    if config.cluster.cluster is not None and learners.rank.size == 1:
        check_combinations(config)
        check_cluster(config.cluster.cluster)
    config = agreed(settle_seed(config), learners)
    torch.manual_seed(config.seed)  # that of the first learner
    use_own_cores(learners.rank)
    part = part_of(config, learners.rank)
    if parent is not None:
        parent = parent_of(learners.rank, parent)
    machine = prepare_machine(part)
    spec = read_spec(config, make_environment)
    layout = unroll_layout(config, spec)
    network = make_network(config.network, layout, machine.precision)
    weights = InitialWeights(source, network, layout, config.environment.env)
    if parent is not None:
        with refusing_foreign_content(parent):
            check_spaces(parent.content, layout)
            network.load_saved(parent.content["learner"]["network"])
    environments = part.workers.envs_per_worker
    processes = check_realtime(
        part, layout, make_environment, machine.worker_count, environments, machine.worker_precision
    )
    machine = replace(machine, inference_processes=processes)
    unrolls_in_slots = machine.worker_count * machine.slots_per_worker * environments
    unrolls_in_slots += open_unrolls(processes, layout.unroll_length, machine.worker_count, environments)
    if not layout.real_time and layout.delayed_actions:
        unrolls_open = 1 + rounds_behind(config.environment, layout.unroll_length)
        unrolls_in_slots += unrolls_open * machine.worker_count * environments
    memory = plan_memory(part, layout, make_environment, unrolls_in_slots).check(
        machine.worker_count, environments, learners.rank.local_size
    )
    with refusing_foreign_content(parent):
        resume = plan_resume(parent, config, layout, machine.worker_count)
    resume.share_plan(learners.from_first)
    first_worker = sum(learners.of_all(machine.worker_count)[: learners.rank.index])
    notes = [*memory.described(), *environment_notes(config, spec)]
    return RunSetup(
        config, part, machine, layout, network, notes, weights, resume, first_worker, make_environment, learners
    )


def environment_notes(config: Config, spec: EnvironmentSpec) -> list[str]:
    """Lines about options of pictures where there are none, and about an environment that no run can save."""
    without_pictures = [] if spec.has_picture else [name for name in OF_PICTURES if name in changed_options(config)]
    notes = [f"--{name} has no effect on observations without a picture" for name in without_pictures]
    if config.run.reproducible and not spec.can_snapshot:
        notes.append(
            f"the state of {config.environment.env} cannot be saved: a resumed run begins new episodes, so it differs "
            "from a run without a break"
        )
    return notes


def make_folder_of_learner(setup: RunSetup) -> Path:
    """The run's folder, which the first learner makes; or within it, the folder of another learner."""
    learners, rank = setup.learners, setup.learners.rank
    if rank.is_first:
        folder = make_run_folder(setup)
        tell_folder(folder)
        learners.from_first(str(folder))
        return folder
    folder = folder_of(rank, Path(learners.from_first(None)))
    (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    setup.resume.copy_checkpoints(folder / CHECKPOINTS, setup.config)
    return folder


def make_run_folder(setup: RunSetup) -> Path:
    """A new folder with config.json and a folder for checkpoints; a resumed run starts with its parent's checkpoint."""
    config, resume, folder = setup.config, setup.resume, None
    try:
        folder = create_run_folder(
            Path(config.run.results_dir), config.environment.env, time.time(), config.run.run_name
        )
        described = {
            "options": config.flags(),
            "machine": setup.machine.described(),
            "network": setup.network.torso_name,
            "planned_updates": resume.planned_updates,
            "parent": resume.described(),
            "weights_from": setup.weights.described(),
        }
        write_json(folder / CONFIG, described)
        (folder / CHECKPOINTS).mkdir()
        resume.copy_checkpoints(folder / CHECKPOINTS, config)
        return folder
    except OSError as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise UsageError(
            f"--results_dir={config.run.results_dir} cannot be written ({error.strerror}); "
            "a folder that you can write to would be right."
        ) from None
