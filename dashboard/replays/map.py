"""A map of what the attentive and elite replays of a run hold: their features in two dimensions.

A run writes its replays with --save_replay or --reproducible. They are read in a process of their own.
"""

from pathlib import Path
from typing import NamedTuple

from dashboard import children
from processes.messages import ChildError, receive
from processes.printed import reason
from run_files.run_folder import NUMBERED_REPLAYS

LONGEST_SECONDS = 300.0  # replays can have many gigabytes
NO_REPLAYS = (
    "There is no map: this run has not saved its replays. --save_replay (or --reproducible) saves those that rank by "
    "features, the attentive and elite ones."
)


class MappedUnroll(NamedTuple):
    """One unroll of a replay."""

    first: float  # the two principal components of its mean features
    second: float
    age: float  # updates since the weights that played it
    distance: float | None  # when it was last ranked; None if it never was
    rewards: float  # their sum, clipped as in training
    times_drawn: float


class ReplayMap(NamedTuple):
    """Some thousand unrolls at most, by a label for their replay."""

    updates: int  # of the checkpoint that belongs to the saved replays
    explained: tuple[float, float]  # fractions of the variance that the components explain
    replays: dict[str, list[MappedUnroll]]


class NoMapError(Exception):
    """There is no map. The message is a sentence for the page."""


def newest_saved_replays(folder: Path) -> Path | None:
    """The newest replay file in a folder of checkpoints."""
    return max(folder.glob(NUMBERED_REPLAYS), default=None)


def read_replay_map(checkpoints: Path) -> ReplayMap:
    """The map of the newest saved replays in a folder of checkpoints. It waits: call it in a thread.

    Raises NoMapError.
    """
    path = newest_saved_replays(checkpoints)
    if path is None:
        raise NoMapError(NO_REPLAYS)
    # Only now: torch takes seconds to load, and most pages never show a map.
    from dashboard.replays.map_process import ReplayMapProcess  # noqa: PLC0415

    try:
        child = children.begin(ReplayMapProcess(path), "replay map")
    except OSError as error:
        raise NoMapError(f"The process that reads the replays could not be started ({error.strerror}).") from None
    try:
        if not child.connection.poll(LONGEST_SECONDS):
            raise NoMapError(f"{path.name} could not be read within {LONGEST_SECONDS:.0f} seconds.")
        answer = receive(child.connection).payload
    except ChildError as error:
        raise NoMapError(f"{path.name} could not be read: {reason(str(error))}") from None
    except (EOFError, OSError):
        raise NoMapError(f"The process that reads {path.name} has ended.") from None
    finally:
        children.end(child)
    if isinstance(answer, str):
        raise NoMapError(answer)
    assert isinstance(answer, ReplayMap)
    return answer
