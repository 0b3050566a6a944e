"""The mean returns of a random and of an idle policy, beside which learned returns are judged.

    python -m tests.benchmarks.floor_policies Boxing Krull NameThisGame Tetris --output=docs/data/floors.json

Each policy plays `--games` full games with the frame skip of the defaults: random chooses uniformly in every agent
step, idle never acts. The file is for `python -m tests.benchmarks.delay_plot --floors`.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from option_flags import EnvironmentOptions
from wrappers.atari import make_atari
from wrappers.emulator import ID_ENDING, NOOP

SEED = 1


def mean_return(env: str, games: int, random: np.random.Generator | None) -> float:
    """The mean return of full games, with random actions or with none."""
    environment = make_atari(EnvironmentOptions(env=env, episodic_life=False), SEED)
    actions = int(environment.action_space.n)  # type: ignore[attr-defined]
    take_finished_games = environment.get_wrapper_attr("take_finished_games")
    returns: list[float] = []
    environment.reset(seed=SEED)
    while len(returns) < games:
        _, _, terminated, truncated, _ = environment.step(NOOP if random is None else int(random.integers(actions)))
        if terminated or truncated:
            returns += [game.return_ for game in take_finished_games()]
            environment.reset()
    environment.close()
    return float(np.mean(returns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="games, such as Boxing")
    parser.add_argument("--games", type=int, default=20, help="games of each policy")
    parser.add_argument("--output", type=Path, default=Path("floors.json"), help="JSON file to write")
    given = parser.parse_args()
    floors = {}
    for name in given.names:
        env = f"{name}{ID_ENDING}"
        floors[env] = {
            "random": mean_return(env, given.games, np.random.default_rng(SEED)),
            "idle": mean_return(env, given.games, None),
        }
        print(env, *(f"{policy} {value:.1f}" for policy, value in floors[env].items()))
    given.output.write_text(json.dumps(floors, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
