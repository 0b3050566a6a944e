"""A process that maps what the attentive and elite replays of a run hold: their features in two dimensions."""

from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.spaces import saved_layout
from dashboard.children import Columns, ReplayMap
from dashboard.results import PageError
from learners.rank import LearnerRank
from learners.shares import part_of
from machine.system_settings import lower_priority, use_one_thread
from option_flags import Config
from options.rules import UsageError
from processes.messages import Kind, send
from replay.row_layout import Rows
from replay.storage import UnrollCodec
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import InvalidCheckpointError, checkpoint_name, read_checkpoint
from run_files.replay_file import DamagedFileError, read_tensor_file
from run_files.run_folder import NUMBERED_REPLAYS

MOST_UNROLLS = 1500  # of each replay
NO_REPLAYS = (
    "There is no map: this run has not saved its replays. --save_replay (or --reproducible) saves those that rank by "
    "features, the attentive and elite ones."
)


def send_map(connection: Connection, checkpoints: Path) -> None:
    """Send the map of the newest replays in a folder of checkpoints, or a sentence that says why there is none."""
    lower_priority()
    use_one_thread()
    try:
        send(connection, Kind.RESULT, payload=map_replays(checkpoints))
    except PageError as error:
        send(connection, Kind.RESULT, payload=str(error))


def map_replays(checkpoints: Path) -> ReplayMap:
    path = max(checkpoints.glob(NUMBERED_REPLAYS), default=None)
    if path is None:
        raise PageError(NO_REPLAYS)
    updates = int(path.stem.removeprefix("replays_"))
    try:
        checkpoint = read_checkpoint(path.parent / checkpoint_name(updates))
        # The first of several learners has saved this file.
        config = part_of(checkpoint.config, LearnerRank(0, checkpoint.config.learners.learners))
        layout = saved_layout(checkpoint.content, config)
        content = read_tensor_file(path)
        if content["unroll"] != layout.fingerprint:
            raise PageError(f"{path.name} holds unrolls of another version.")
        return _mapped(content["mix"]["replays"], config, layout, updates)
    except InvalidCheckpointError as error:
        raise PageError(f"{checkpoint_name(updates)} {error}.") from None
    except (UsageError, DamagedFileError, OSError) as error:
        raise PageError(f"{path.name} cannot be read: {error}".rstrip(".") + ".") from None


def _mapped(saved: list[Mapping[str, Any]], config: Config, layout: UnrollLayout, updates: int) -> ReplayMap:
    replays: dict[str, Columns] = {}
    features: list[NDArray[np.float32]] = []  # of the same unrolls
    for place, (entry, replay) in enumerate(zip(config.replay.replays, saved, strict=True)):
        held = len(_saved(replay, "times_drawn", np.int64)) if entry.ranks and layout.feature_size else 0
        if held:
            chosen = np.unique(np.linspace(0, held - 1, min(held, MOST_UNROLLS)).astype(int))
            rows = _rows(replay["storage"], chosen, layout)
            replays[f"{entry.type} (replay {place + 1})"] = _figures(replay, rows, chosen, layout, updates)
            features.append(layout.array(rows, "features").astype(np.float32).mean(axis=1))
    if not replays:
        raise PageError("There is no map: the saved replays hold no unrolls with features.")
    points, explained = principal_components(np.concatenate(features))
    ends = np.cumsum([len(each) for each in features])[:-1]
    for columns, part in zip(replays.values(), np.split(points, ends), strict=True):
        columns["x"], columns["y"] = part.T.tolist()
    return ReplayMap(updates, explained, replays)


def _figures(
    replay: Mapping[str, Any], rows: Rows, chosen: NDArray[np.int64], layout: UnrollLayout, updates: int
) -> Columns:
    """What is known of the chosen unrolls of a replay, whose rows these are."""
    distances = _saved(replay, "distances", np.float64)[chosen]
    return {
        "age in updates": (updates - layout.array(rows, "weight_version").reshape(-1)).tolist(),
        # It is 0 for an unroll that was never ranked.
        "distance": [value if value and np.isfinite(value) else None for value in distances.tolist()],
        "sum of rewards": layout.array(rows, "rewards").sum(axis=1).tolist(),
        "times drawn": _saved(replay, "times_drawn", np.int64)[chosen].tolist(),
    }


def _saved(replay: Mapping[str, Any], name: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Numbers that are saved as bytes."""
    numbers: NDArray[Any] = replay[name].numpy().copy().view(dtype)
    return numbers


def principal_components(features: NDArray[np.float32]) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Features `[N, F]` in the two directions of their largest variance, `[N, 2]`, and the fractions of both."""
    centred = features.astype(np.float64) - features.mean(axis=0, dtype=np.float64)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(features), 2))
    points[:, : len(directions[:2])] = centred @ directions[:2].T
    shares = sizes**2 / max(float((sizes**2).sum()), 1e-12)
    first, second = [*shares[:2].tolist(), 0.0, 0.0][:2]
    return points, (first, second)


def _rows(storage: Mapping[str, Any], chosen: NDArray[np.int64], layout: UnrollLayout) -> Rows:
    if "rows" in storage:
        picked: Rows = storage["rows"].numpy()[chosen]
        return picked
    codec, rows = UnrollCodec(layout, level=0), np.empty((len(chosen), layout.nbytes), np.uint8)
    for row, index in zip(rows, chosen, strict=True):
        codec.decode(storage["blobs"][index], row)
    return rows
