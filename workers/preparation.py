"""What is settled before a run begins: the machine, the shape of an unroll, the folder."""

import platform
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import torch

from agents.device import choose_device, choose_precision, learner_threads, prepare_torch, usable_cores
from agents.run_folder import CHECKPOINTS, create_run_folder, write_json
from agents.system_settings import keep_freed_memory, take_long_turns
from option_flags import Config, UsageError
from replay.trajectory import UnrollSpec
from workers.memory import ReplayMemory
from workers.progress import Progress
from workers.resume import Resume
from workers.saver import Saver
from workers.worker import MakeEnvironment

OLD = 40  # updates; what is known of learning is known of 3 to 15
KEEPS_THEM_FRESH = "a larger --batch_size or fewer --envs_per_worker would keep them fresh"


@dataclass(frozen=True)
class Machine:
    """What a run uses of the machine it is on."""

    device: torch.device
    precision: torch.dtype  # on that device
    worker_precision: torch.dtype  # of networks in workers and players, which are on the CPU
    worker_count: int
    slots_per_worker: int
    learner_threads: int

    def described(self) -> dict[str, str | int]:
        return {
            "device": str(self.device),
            "precision": str(self.precision).removeprefix("torch."),
            "worker_precision": str(self.worker_precision).removeprefix("torch."),
            "worker_count": self.worker_count,
            "slots_per_worker": self.slots_per_worker,
            "learner_threads": self.learner_threads,
            "cores": usable_cores(),
            "platform": platform.platform(),
            "python": platform.python_version(),
            "torch": str(torch.__version__),
        }


def settle_seed(config: Config) -> tuple[Config, int]:
    """The configuration with a seed in it, and the seed, for torch's own numbers, too.

    It is drawn once for all runs of a lineage.
    """
    seed = secrets.randbelow(2**31) if config.run.seed is None else config.run.seed
    torch.manual_seed(seed)
    return config.replace_flags(seed=seed), seed


def prepare_machine(config: Config) -> Machine:
    """Choose what the flags leave open, and set torch up for it."""
    if sys.platform == "darwin" and config.workers.inference == "learner":
        # There, a pipe's receiver confirms it in the pipe that it came through, among the server's signs of life.
        raise UsageError("--inference=learner does not work on macOS; --inference=worker would be right.")
    device = choose_device(config.run.device)
    threads = config.run.learner_threads or learner_threads(device)
    if threads > usable_cores():  # more of them would wait for each other by spinning, for minutes
        raise UsageError(
            f"--learner_threads={threads} is more than the {usable_cores()} cores that this process may use; "
            f"0, which chooses {learner_threads(device)} here, would be right."
        )
    torch.set_num_threads(threads)
    keep_freed_memory()
    take_long_turns()
    # The mean squares of dead weights fade into denormal numbers, on which the optimizer's step takes twice the time.
    torch.set_flush_denormal(True)
    prepare_torch(device, config.run.reproducible)
    worker_count = config.workers.worker_count or usable_cores()
    return Machine(
        device=device,
        precision=choose_precision(config.run.precision, device),
        worker_precision=choose_precision(config.run.precision, torch.device("cpu")),
        worker_count=worker_count,
        slots_per_worker=config.slots_for(worker_count),
        learner_threads=threads,
    )


def describe_unrolls(config: Config, make_environment: MakeEnvironment) -> UnrollSpec:
    """The layout of an unroll, from the environment that is asked for."""
    environment = make_environment(config.environment, 0)
    observations, actions = environment.observation_space, environment.action_space
    environment.close()
    assert isinstance(observations, gymnasium.spaces.Box) and isinstance(actions, gymnasium.spaces.Discrete)
    return UnrollSpec(
        unroll_length=config.replay.r_f_steps,
        frame_stack=observations.shape[0],
        frame_shape=observations.shape[1:],
        action_count=int(actions.n),
        lstm_size=config.network.lstm_size if config.network.use_lstm else 0,
        feature_size=config.network.feature_out_layer_size if config.replay.ranks_by_features else 0,
    )


def make_run_folder(config: Config, machine: Machine, resume: Resume) -> Path:
    """A new folder, which says what the run is and where it comes from, with a place for checkpoints."""
    folder = None
    try:
        folder = create_run_folder(Path(config.run.results_dir), config.environment.env, time.time())
        described = {
            "options": config.flags(),
            "machine": machine.described(),
            "planned_updates": resume.planned_updates,
            "parent": resume.described(),
        }
        write_json(folder / "config.json", described)
        (folder / CHECKPOINTS).mkdir()
        resume.carry_over(folder / CHECKPOINTS)
        return folder
    except OSError as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise UsageError(
            f"--results_dir={config.run.results_dir} cannot be written ({error.strerror}); "
            "a folder of your own would be right."
        ) from None


def header(
    config: Config, folder: Path, machine: Machine, spec: UnrollSpec, memory: ReplayMemory, planned_updates: int
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
        f"{config.environment.env}, {spec.action_count} actions, seed {config.run.seed}, results in {folder}",
        f"learner on {machine.device} in {precision} with {machine.learner_threads} thread(s); "
        f"{machine.worker_count} workers × {config.workers.envs_per_worker} environments = {environments}",
        f"batch of {config.replay.batch_size} unrolls × {spec.unroll_length} steps: {' + '.join(shares)}; "
        f"{config.network.network}{' with LSTM' if spec.lstm_size else ''}, {planned_updates:,} updates planned",
        *memory.described(),
        *(
            [f"where the learner needs all workers, unrolls may be {age} updates old; {KEEPS_THEM_FRESH}"]
            if age >= OLD
            else []
        ),
        *config.without_effect(),
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
