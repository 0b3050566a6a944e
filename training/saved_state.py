"""What a resumed run finds beside the weights: the saved replays, and in lockstep the games of its parent."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from option_flags import Config
from options.rules import counted
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import Checkpoint
from run_files.replay_file import DamagedFileError, read_tensor_file
from run_files.run_folder import NUMBERED_REPLAYS


@dataclass
class SavedReplays:
    """The replays that a run begins with; they are empty where `mix` is None."""

    mix: dict[str, Any] | None = None  # the state of the mix; it maps the file
    with_queues: bool = False  # whether its queues and prepared batches are those of this run at this checkpoint
    kept: Path | None = None  # the file, which a resume of this run may need until it has saved its own
    notes: list[str] = field(default_factory=list)  # lines for the user


def read_saved_replays(parent: Checkpoint, config: Config, layout: UnrollLayout) -> SavedReplays:
    """The newest replays that are not newer than the checkpoint, if they fit the run; else a note that says why not."""
    files = sorted(parent.path.parent.glob(NUMBERED_REPLAYS))
    path = next((path for path in reversed(files) if path.name <= parent.replay_path.name), None)
    if path is None:
        return _empty("none were saved") if config.replay.longest_warmup else SavedReplays()
    before = parent.config
    if before.learners.learners != config.learners.learners:
        return _empty(f"the saved ones are those of {counted(before.learners.learners, 'learner')}")
    if before.environment != config.environment:
        return _empty("the saved ones were made with other options of the environment")
    try:
        saved = read_tensor_file(path)
    except (DamagedFileError, OSError) as error:
        return _empty(str(error))
    options = config.replay
    same = (before.replay.replay_parameters, before.replay.use_replay_compression) == (
        options.replay_parameters,
        options.use_replay_compression,
    )
    if not same or saved["unroll"] != layout.fingerprint:
        return _empty("the saved ones have another layout or other --replay_parameters")
    is_newest = path == parent.replay_path and saved["agent_steps"] == parent.agent_steps
    # What a queue holds follows from the batch size and its uses; that of the other replays does not.
    same_batches = before.replay.batch_size == options.batch_size and before.batch_uses == config.batch_uses
    with_queues = is_newest and same_batches
    notes = []
    prepared = saved["mix"]["prepared"] if with_queues else []
    if prepared and not options.caching:
        notes.append(f"batches that were mixed ahead are dropped ({len(prepared)}), because this run has no --caching")
    if not is_newest:
        notes.append(f"the replays are those of {path.name}, which is older than the checkpoint")
    # With another batch size, the next resume would load its queues, which fit the old batch size.
    return SavedReplays(saved["mix"], with_queues, path if with_queues or not is_newest else None, notes)


def _empty(why: str) -> SavedReplays:
    return SavedReplays(notes=[f"the replays start empty: {why}"])


def saved_games(parent: Checkpoint, config: Config, worker_count: int) -> dict[str, Any] | None:
    """The workers' games, and the unrolls that the learner had not taken; None if new games begin."""
    in_flight: dict[str, Any] | None = parent.content["in_flight"]
    if in_flight is None or not config.run.reproducible or parent.config.environment != config.environment:
        return None
    snapshots = in_flight["snapshots"]
    same_workers = len(snapshots) == worker_count and len(snapshots[0]["seats"]) == config.workers.envs_per_worker
    return in_flight if same_workers else None


def note_on_games(in_flight: dict[str, Any] | None) -> str:
    restored = in_flight is not None and all(
        seat["game"] is not None for snapshot in in_flight["snapshots"] for seat in snapshot["seats"]
    )
    return "the games continue exactly where they stopped" if restored else "new games begin"
