"""A learner process that a launcher started: its connection, its parent, and what it tells the launcher."""

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

from learners.group import LearnerGroup, OneLearner
from learners.rank import LIFELINE, NEWS, SILENCE_FACTOR, LearnerRank
from option_flags import Config
from options.rules import UsageError
from run_files.checkpoint import Checkpoint, checkpoint_name, find_checkpoint
from run_files.run_folder import CHECKPOINTS


def connect(rank: LearnerRank | None, config: Config) -> OneLearner:
    """The connection with the other learners; a run with one learner has none."""
    if rank is None or rank.size == 1:
        return OneLearner()
    return LearnerGroup(rank, SILENCE_FACTOR * config.workers.worker_timeout)


def end_with_launcher() -> None:
    """When the launcher ends, however it does, this process saves and ends."""
    if (descriptor := os.environ.get(LIFELINE)) is None:
        return

    def watch() -> None:
        os.read(int(descriptor), 1)  # returns when the launcher's end is closed
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def tell_folder(folder: Path) -> None:
    """Tell the launcher the run's folder."""
    if (descriptor := os.environ.get(NEWS)) is not None:
        os.write(int(descriptor), os.fsencode(folder) + b"\n")


def folder_of(rank: LearnerRank, run_folder: Path) -> Path:
    """Where a learner keeps what is its own: the first one in the run's folder itself, the others below it."""
    return run_folder if rank.is_first else run_folder / f"learner_{rank.index}"


def parent_of(rank: LearnerRank, parent: Checkpoint) -> Checkpoint:
    """The checkpoint that a learner resumes: the run's, with its own games and replays where they were saved.

    The weights are always the run's: `best.pt` of this learner may be of another update.
    """
    if rank.is_first:
        return parent
    folder = folder_of(rank, parent.run_folder) / CHECKPOINTS
    for name in (parent.path.name, checkpoint_name(parent.updates)):
        if (folder / name).exists():
            own = find_checkpoint(str(folder / name))
            if own.updates == parent.updates:
                return replace(own, content={**own.content, "learner": parent.content["learner"]})
    return replace(parent, path=folder / parent.path.name, content={**parent.content, "in_flight": None})


def agreed(config: Config, learners: OneLearner) -> Config:
    """The configuration of the first learner, after a check that all learners have the same one."""
    flags = config.flags()
    of_all = learners.of_all(flags)
    learners.of_all(None)  # nobody ends before all have these flags
    first = of_all[0]
    for rank, other in enumerate(of_all):
        differing = [name for name, value in first.items() if other.get(name) != value and name != "seed"]
        if differing:
            name = differing[0]
            raise UsageError(
                f"--{name} is {first[name]} for learner 0 and {other.get(name)} for learner {rank}; the same command "
                "for all would be right."
            )
    return config.replace_flags(seed=first["seed"])
