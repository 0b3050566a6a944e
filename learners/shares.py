"""How many learners a run has, and what each of them gets: cores, workers, files, parts of batch and replays."""

import json
import os
from dataclasses import replace
from pathlib import Path

import torch

from learners.rank import LearnerRank
from machine.capacity import SHARING, usable_cores
from option_flags import Config
from options.rules import UsageError
from run_files.checkpoint import Checkpoint, checkpoint_name, find_checkpoint
from run_files.run_folder import CHECKPOINTS
from workers.randomness import stream_of

CORES_PER_LEARNER = 4  # on CPUs: without a replay, one learner keeps up with so many (docs/performance.md)
UNROLLS_PER_GPU = 4  # with fewer, an update is hardly shorter


def settle_learners(config: Config, rank: LearnerRank | None) -> Config:
    """The configuration with a number of learners: the one asked for, or with 0 the one for this machine.

    A launcher that has started this process has decided it.
    """
    if rank is not None:
        _check_devices(config, rank.local_size, f"{rank.local_size} learners on this machine need", "fewer on it")
        return config.replace_flags(learners=rank.size)
    if learners := config.learners.learners:
        fitting = _largest_fitting(config, max(1, torch.cuda.device_count()))
        _check_devices(config, learners, f"--learners={learners} needs", f"--learners={fitting}")
        return config
    gpus = torch.cuda.device_count() if config.run.device in ("auto", "cuda") else 0
    by_batch = max(1, config.replay.batch_size // UNROLLS_PER_GPU)
    most = min(gpus, by_batch) if gpus else usable_cores() // CORES_PER_LEARNER
    if _is_single(config.run.device) or config.cluster.cluster is not None:
        most = 1
    return config.replace_flags(learners=_largest_fitting(config, min(most, config.workers.worker_count or most)))


def _largest_fitting(config: Config, most: int) -> int:
    """The largest number of learners up to `most` that can divide the batch."""
    fitting = [n for n in range(1, most + 1) if all(share % n == 0 for share in config.replay.shares)]
    return max(fitting, default=1)


def _is_single(device: str) -> bool:
    """Whether --device names one device, which learners cannot divide."""
    return device.startswith("cuda:") or device == "mps"


def _check_devices(config: Config, learners: int, they_need: str, fewer: str) -> None:
    """UsageError if this machine has too few devices for so many learners."""
    if learners == 1 or config.run.device == "cpu":
        return
    if _is_single(config.run.device):
        raise UsageError(
            f"{they_need} a device for each learner, and --device={config.run.device} is a single one; "
            "--device=cuda or --device=cpu would be right."
        )
    gpus = torch.cuda.device_count()
    if (config.run.device == "cuda" and learners > gpus) or (config.run.device == "auto" and 0 < gpus < learners):
        raise UsageError(
            f"{they_need} as many GPUs, and this machine has {gpus}; {fewer} would be right, or --device=cpu."
        )


def part_of(config: Config, rank: LearnerRank) -> Config:
    """The configuration of one learner: its share of everything that the learners of a run divide among them."""
    if rank.size == 1:
        return config
    size, workers = rank.size, config.workers.worker_count
    replays = json.loads(config.replay.replay_parameters)
    for entry, share in zip(replays, config.replay.shares, strict=True):
        entry["capacity"] = max(-(-entry["capacity"] // size), share // size)
    changed = {
        "batch_size": config.replay.batch_size // size,
        "replay_parameters": json.dumps(replays),
        "worker_count": workers // size + (rank.index < workers % size),  # 0 is as many as its machine can run
        "learners": 1,
    }
    if config.run.device in ("auto", "cuda") and torch.cuda.is_available():
        changed["device"] = f"cuda:{rank.local_index}"
    if not rank.is_first:
        own_seed = int(stream_of("learner", config.seed, rank.index).generate_state(1)[0] >> 1)
        quiet = {"console": "off", "curves": False, "tensorboard": False, "wandb": False, "metrics_port": 0}
        changed |= {"seed": own_seed, "eval_period": 0, **quiet}
    return config.replace_flags(**changed)


def use_own_cores(rank: LearnerRank) -> None:
    """Let this process, and all that it starts, use and count only its share of the machine's cores."""
    if rank.local_size == 1:
        return
    os.environ[SHARING] = str(rank.local_size)  # quotas cannot be divided, so a part of them is counted
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    first, end = (index * len(cores) // rank.local_size for index in (rank.local_index, rank.local_index + 1))
    if own := cores[first:end]:  # with fewer cores than learners, they share them
        os.sched_setaffinity(0, own)


def learners_in_words(part: Config, rank: LearnerRank) -> list[str]:
    """A line for the head of a run with several learners."""
    if rank.size == 1:
        return []
    return [f"{rank.size} learners, each with {part.replay.batch_size} unrolls of a batch and workers of its own"]


def folder_of(rank: LearnerRank, run_folder: Path) -> Path:
    """Where a learner keeps what is its own: the first one in the run's folder itself, the others below it."""
    return run_folder if rank.is_first else run_folder / f"learner_{rank.index}"


def parent_of(rank: LearnerRank, parent: Checkpoint) -> Checkpoint:
    """The checkpoint that a learner resumes: the run's, with its own games and replays where they were saved.

    The weights are always the run's.
    """
    if rank.is_first:
        return parent
    path = folder_of(rank, parent.run_folder) / CHECKPOINTS / checkpoint_name(parent.updates)
    if not path.exists():
        return replace(parent, path=path, content={**parent.content, "in_flight": None})
    own = find_checkpoint(str(path))
    return replace(own, content={**own.content, "learner": parent.content["learner"]})
