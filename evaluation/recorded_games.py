"""Recorded games: what is needed to play a game again, in one file of JSON for each. Tests and persons record them."""

import dataclasses
import json
import math
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluation.film import score_text
from option_flags import Config, EnvironmentOptions
from options.rules import Rule, UsageError, whole
from run_files.run_folder import write_atomically

MINARI = "minari:"  # begins the name of a Minari data set, in place of a folder
SEED, RETURN = whole(0, 2**31 - 1), Rule(float, "be a number or null", math.isfinite, optional=True)


class RecordedGame(NamedTuple):
    """The same options, seed and actions give the same game, where an environment honours its seed."""

    options: EnvironmentOptions
    seed: int  # of the reset
    actions: NDArray[Any]  # [steps, ...], one for each agent step
    return_: float | None  # unclipped; None if the player left before the end


def folder_for_games(config: Config) -> Path:
    """The folder of --demonstrations, made if there is none."""
    if config.replay.demonstrations is None:
        raise UsageError(f"--op_mode={config.run.op_mode} needs --demonstrations, the folder for the recorded games.")
    if config.environment.interaction != "turns":
        raise UsageError("--demonstrations records games that wait; --interaction=turns would be right.")
    if config.replay.demonstrations.startswith(MINARI):
        raise UsageError(
            f"--op_mode={config.run.op_mode} records games in a folder; --demonstrations=games would be right."
        )
    folder = Path(config.replay.demonstrations)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--demonstrations={folder} cannot be made ({error.strerror}).") from None
    return folder


def write_game(folder: Path, game: RecordedGame) -> Path:
    """Write a game to a new file, whose name has the time and the return."""
    ending = "unfinished" if game.return_ is None else f"return{score_text(game.return_, thousands='')}"
    path = folder / f"{re.sub('[/:]', '-', game.options.env)}_{time.time_ns()}_{ending}.json"
    content = {
        "environment": dataclasses.asdict(game.options),
        "seed": game.seed,
        "return": game.return_,
        "actions": game.actions.tolist(),
    }
    write_atomically(path, json.dumps(content).encode())
    return path


def read_games(folder: str) -> dict[str, RecordedGame]:
    """The games of a folder by file name, in the order of these. UsageError if there are none, or one is damaged."""
    place = Path(folder)
    if place.is_file():
        raise UsageError(f"--demonstrations={folder} is a file; its folder, {place.parent}, would be right.")
    games = {path.name: _read_game(path) for path in sorted(place.glob("*.json"))}
    if not games:
        raise UsageError(f"--demonstrations={folder} has no recorded games; --op_mode=play would write some there.")
    return games


def _read_game(path: Path) -> RecordedGame:
    try:
        content = json.loads(path.read_bytes())
        actions = np.array(content["actions"])
        if not actions.size:
            raise ValueError("it has no actions")
        return RecordedGame(
            EnvironmentOptions(**content["environment"]),
            SEED.checked("its seed", content["seed"]),
            actions.astype(np.float32) if actions.dtype.kind == "f" else actions,
            RETURN.checked("its return", content["return"]),
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError, UsageError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise UsageError(f"--demonstrations: {path} is no recorded game: {why}.") from None
