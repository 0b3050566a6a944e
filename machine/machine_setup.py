"""Chooses device, precision, worker count, threads and seed where the flags leave them open, and sets torch up."""

import platform
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from machine.capacity import usable_cores
from machine.device import choose_device, choose_precision, is_nvidia, learner_threads, prepare_torch
from machine.system_settings import keep_freed_memory
from option_flags import Config, against_gpu_settings
from options.presets import ATARI_GPU, STANDARD, WHAT_FOR, is_noframeskip
from options.rules import UsageError

# One slot per worker is enough if a round of unrolls from the other workers is enough for this many updates.
UPDATES_FROM_OTHERS = 2


@dataclass(frozen=True)
class Machine:
    """The device, the number formats and the numbers of processes, slots and threads of a run."""

    device: torch.device
    precision: torch.dtype  # of the network on that device
    worker_precision: torch.dtype  # of networks in workers and players, on the CPU
    worker_count: int
    slots_per_worker: int
    learner_threads: int
    inference_processes: int = 0  # of each worker, with --interaction=realtime

    def described(self) -> dict[str, str | int]:
        chosen = {name: v if isinstance(v, int) else str(v).removeprefix("torch.") for name, v in vars(self).items()}
        if not self.inference_processes:
            del chosen["inference_processes"]
        return {
            **chosen,
            "cores": usable_cores(),
            "platform": platform.platform(),
            "python": platform.python_version(),
            "torch": str(torch.__version__),
        }


def settle_settings(config: Config, given: Mapping[str, Any], suited: str) -> tuple[Config, list[str]]:
    """The configuration of a new run with what --settings=auto chooses, and a line that says so.

    Settings were not tried with several learners. `given` are the flags of the command line, and those that come with
    weights from another run. `suited` are the settings for such an environment without a GPU.
    """
    if config.run.settings != "auto" or config.learners.learners != 1:
        return config, []
    if is_noframeskip(config.environment.env) and is_nvidia(choose_device(config.run.device)):
        against = against_gpu_settings(given)
        if against:
            return config, [
                f"settings: {STANDARD}, because --{against[0]} is given; --settings={ATARI_GPU} would choose those for "
                "a GPU"
            ]
        suited = ATARI_GPU
    if suited == STANDARD:
        return config, []
    return Config.from_flags({**given, "settings": suited, "learners": 1}), [
        f"settings: {suited}, {WHAT_FOR[suited]}; --settings={STANDARD} would choose the others"
    ]


def settle_seed(config: Config) -> Config:
    """The configuration with a seed: the one given, or a random one. Torch is seeded with it.

    Runs that resume take over the seed of their parent.
    """
    settled = config if config.run.seed is not None else config.replace_flags(seed=secrets.randbelow(2**31))
    torch.manual_seed(settled.seed)
    return settled


def prepare_machine(config: Config) -> Machine:
    """Choose what the flags leave open, and set torch up."""
    if sys.platform == "darwin" and config.workers.inference == "learner":
        # On macOS, a process that receives a pipe confirms it through the same connection, between the heartbeats.
        raise UsageError("--inference=learner does not work on macOS; --inference=worker would be right.")
    device = choose_device(config.run.device)
    chosen = learner_threads(device, alone=config.cluster.all_workers_are_remote)
    threads = config.run.learner_threads or chosen
    if threads > usable_cores():  # more threads than cores would wait for each other by spinning, for minutes
        raise UsageError(
            f"--learner_threads={threads} is more than the {usable_cores()} cores that this process may use; "
            f"0, which chooses {chosen} here, would be right."
        )
    torch.set_num_threads(threads)
    keep_freed_memory()
    # The mean squares of dead weights become denormal numbers, which double the time of the optimizer's step.
    torch.set_flush_denormal(True)
    prepare_torch(device, config.run.reproducible)
    worker_count = 0 if config.cluster.all_workers_are_remote else config.workers.worker_count or usable_cores()
    return Machine(
        device=device,
        precision=choose_precision(config.run.precision, device),
        worker_precision=choose_precision(config.run.precision, torch.device("cpu")),
        worker_count=worker_count,
        slots_per_worker=choose_slots_per_worker(config, worker_count),
        learner_threads=threads,
    )


def choose_slots_per_worker(config: Config, workers: int) -> int:
    """Rounds of unrolls that each of this many workers may be ahead of the learner; one in a reproducible run.

    More rounds than the learner needs only increase the policy lag.
    """
    if config.run.reproducible:
        return 1
    updates_from_others = (workers - 1) * config.workers.envs_per_worker / config.fresh_unrolls_per_update
    return config.workers.slots_per_worker or (1 if updates_from_others >= UPDATES_FROM_OTHERS else 2)
