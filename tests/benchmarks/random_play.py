"""Play each game at random, and list how often its rewards come.

    python -m tests.benchmarks.random_play
    python -m tests.benchmarks.random_play Freeway Venture --steps=200000 --skipped_frames=16

A game is played as in training with the defaults, with a uniformly random action in each agent step. Games whose
rewards are rarest come first.
"""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from option_flags import EnvironmentOptions
from reports.number_format import table_lines
from wrappers.atari import make_atari
from wrappers.emulator import ID_ENDING, atari_games

SEED = 1


class Play(NamedTuple):
    """What `steps` agent steps of random play saw. `first` is the step of the first reward above 0."""

    game: str
    positive: int  # steps with a reward above 0
    negative: int
    episodes: int
    first: int | None


def play(env: str, steps: int, skipped_frames: int) -> Play:
    environment = make_atari(EnvironmentOptions(env=env, skipped_frames=skipped_frames), SEED)
    actions = np.random.default_rng(SEED).integers(environment.action_space.n, size=steps)  # type: ignore[attr-defined]
    rewards = np.zeros(steps)
    episodes = 0
    environment.reset(seed=SEED)
    for step, action in enumerate(actions):
        _, reward, terminated, truncated, _ = environment.step(int(action))
        rewards[step] = float(reward)
        if terminated or truncated:
            episodes += 1
            environment.reset()
    environment.close()
    scored = np.flatnonzero(rewards > 0)
    first = int(scored[0]) + 1 if scored.size else None
    return Play(env.removesuffix(ID_ENDING), scored.size, int((rewards < 0).sum()), episodes, first)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", nargs="*", help="names such as Freeway; none: all games")
    parser.add_argument("--steps", type=int, default=20_000, help="agent steps of each game")
    parser.add_argument("--skipped_frames", type=int, default=4, help="frames of an agent step")
    given = parser.parse_args(words)
    envs = [f"{game}{ID_ENDING}" for game in given.games] or list(atari_games())
    plays = sorted(
        (play(env, given.steps, given.skipped_frames) for env in envs), key=lambda each: (each.positive, each.negative)
    )
    headings = ["game", "rewards above 0", "below 0", "episodes", "first after"]
    cells = [[*map(str, each[:4]), "never" if each.first is None else f"{each.first}"] for each in plays]
    print("\n".join(table_lines(cells, headings, right={1, 2, 3, 4})))


if __name__ == "__main__":
    main()
