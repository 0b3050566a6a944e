"""Finds a demonstration of Montezuma's Revenge by search, and writes it as a recorded game.

    python -m tests.benchmarks.montezuma games 400 20

It ends at a score of 400 (the key of the first room is 100, a door 300 more), or after 20 minutes. Random play goes on
from the shortest known ways to many places of the game, which are told apart by the console's memory (Ecoffet et al.
2019, arXiv 1901.10995). The agent sees nothing of that.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.parallel_games import evaluation_options
from evaluation.recorded_games import RecordedGame, write_game
from option_flags import EnvironmentOptions
from wrappers.atari import make_atari

SEED = 0
STEPS = 30  # of random play from a place
ANOTHER = 0.1  # probability of another action in a step
ROOM, X, Y, THINGS, DOORS = 3, 42, 43, 65, 66  # in the console's memory
PIXELS = 8  # of a place


@dataclass
class Place:
    """How it is reached in the fewest steps so far."""

    actions: list[int]
    score: float
    snapshot: dict[str, Any]
    visits: int = 0


def main(folder: str, wanted: str, minutes: str) -> None:
    options = evaluation_options(
        EnvironmentOptions(env="MontezumaRevengeNoFrameskip-v4", reward_clipping_method="none")
    )
    environment = make_atari(options, 0)
    environment.reset(seed=SEED)
    rng = np.random.default_rng(SEED)
    ale: Any = environment.get_wrapper_attr("ale")
    restore, snapshot = environment.get_wrapper_attr("restore"), environment.get_wrapper_attr("snapshot")
    lives = ale.lives()
    best, until = Place([], 0.0, snapshot()), time.monotonic() + 60 * float(minutes)
    places: dict[tuple[float, ...], Place] = {(): best}
    while best.score < float(wanted) and time.monotonic() < until:
        found = list(places.values())
        weights = np.array([(place.score / 100 + 1) / (place.visits + 1) ** 0.5 for place in found])
        place = found[rng.choice(len(found), p=weights / weights.sum())]
        place.visits += 1
        restore(place.snapshot)
        actions, score, action = list(place.actions), place.score, int(rng.integers(18))
        for _ in range(STEPS):
            action = int(rng.integers(18)) if rng.random() < ANOTHER else action
            _, reward, terminated, truncated, _ = environment.step(action)
            actions.append(action)
            score += float(reward)
            if terminated or truncated or ale.lives() < lives:
                break
            memory = ale.getRAM()
            at = int(memory[ROOM]), int(memory[X]) // PIXELS, int(memory[Y]) // PIXELS
            cell = (*at, int(memory[THINGS]), int(memory[DOORS]), score)
            known = places.get(cell)
            if known is None or len(actions) < len(known.actions):
                places[cell] = Place(list(actions), score, snapshot())
                if score > best.score:
                    best = places[cell]
                    print(f"{score:.0f} after {len(actions)} steps; {len(places)} places", flush=True)
    Path(folder).mkdir(parents=True, exist_ok=True)
    print(write_game(Path(folder), RecordedGame(options, SEED, np.array(best.actions), None)))


if __name__ == "__main__":
    main(*sys.argv[1:])
