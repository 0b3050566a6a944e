"""This process among the learners of a run: its rank, and the launcher that has started it."""

import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass

# Set by our launcher for each learner, and by torchrun.
NEEDED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LIFELINE = "RL_LEARNERS_LIFELINE"  # a pipe that closes when the launcher ends
HERE = "127.0.0.1"
STORE = "RL_LEARNERS_STORE"  # port of our launcher, where the learners find each other
FOLDER = "run_folder"  # in that store, for the launcher
SILENCE_FACTOR = 5  # a learner may be silent so many times as long as a worker: it saves replays meanwhile


@dataclass(frozen=True)
class LearnerRank:
    """Rank 0 reports, saves and evaluates. Local ranks count the learners of one machine."""

    index: int = 0
    size: int = 1
    local_index: int = 0
    local_size: int = 1

    @property
    def is_first(self) -> bool:
        return self.index == 0


def learner_rank(environment: Mapping[str, str] = os.environ) -> LearnerRank | None:
    """The rank that a launcher gave this process; None for a process that was started by hand."""
    if any(name not in environment for name in NEEDED):
        return None
    return LearnerRank(*(int(environment[name]) for name in NEEDED[:4]))


def end_with_launcher() -> None:
    """When the launcher ends, however it does, this process saves and ends."""
    if (descriptor := os.environ.get(LIFELINE)) is None:
        return

    def watch() -> None:
        os.read(int(descriptor), 1)  # returns when the launcher's end is closed
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
