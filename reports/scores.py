"""Scores of games: published ones, what is human-normalised, and one number for the returns of many games."""

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Aitchison et al., 2023 (arXiv 2210.02019): the weights of the linear regression without intercept that predicts
# log10(1 + the median of 57 games) from log10(1 + score) of these five, scores in percent and at least 0.
ATARI_5 = {
    "BattleZone": 0.3819751237831753,
    "DoubleDunk": 0.0679099488887574,
    "NameThisGame": 0.310804148620847,
    "Phoenix": 0.12412619402774641,
    "Qbert": 0.08048518286466755,
}
RESAMPLES = 10_000  # of the bootstrap
INTERVAL = (2.5, 97.5)  # percentiles of the resampled values: 95% of them lie between these two


def game_name(env: str) -> str:
    return env.removesuffix("NoFrameskip-v4")


def published_name(env: str) -> str:
    """The game of an id, as tables of published scores call it: Pong for PongNoFrameskip-v4 and for ALE/Pong-v5."""
    return game_name(re.sub(r"^(?:.+:)?ALE/(\w+)-v\d+$", r"\1", env))


def human_normalised(env: str, mean: float) -> float | None:
    """0 for the score of random play and 1 for a human's; None for a game without published scores."""
    scores = PUBLISHED.get(published_name(env))
    return None if scores is None else (mean - scores.random) / (scores.human - scores.random)


class Estimate(NamedTuple):
    """A number over all games, and its 95% bootstrap interval; None where a game has one run only."""

    value: float
    interval: tuple[float, float] | None


def interquartile_mean(scores: Array) -> Array:
    """The mean of the middle half of the last axis: [..., N] to [...].

    A quarter, rounded down, is left out at each end, as in Agarwal et al., 2021 (arXiv 2108.13264).
    """
    count = scores.shape[-1]
    left_out = count // 4
    return np.asarray(np.sort(scores, axis=-1)[..., left_out : count - left_out].mean(axis=-1))


def atari5_median(scores: Mapping[str, Array]) -> Array:
    """Estimate the median of 57 games from the mean scores of the five, each [...], human-normalised."""
    logarithms = [weight * np.log10(1 + 100 * np.maximum(scores[game], 0)) for game, weight in ATARI_5.items()]
    return np.asarray((10 ** np.sum(logarithms, axis=0) - 1) / 100)


def interquartile_mean_of_runs(scores: Mapping[str, Sequence[float]]) -> Estimate:
    """Over all runs of all games: the scores by game, one for each run."""
    return bootstrap(scores, lambda drawn: interquartile_mean(np.concatenate(list(drawn.values()), axis=-1)))


def atari5_median_of_runs(scores: Mapping[str, Sequence[float]]) -> Estimate:
    """From the scores of the five games, one for each run; other games are left out."""
    five = {game: scores[game] for game in ATARI_5}
    return bootstrap(five, lambda drawn: atari5_median({game: runs.mean(axis=-1) for game, runs in drawn.items()}))


def bootstrap(scores: Mapping[str, Sequence[float]], aggregate: Callable[[Mapping[str, Array]], Array]) -> Estimate:
    """Stratified by game: each game's runs are drawn with replacement, as many as it has. Arrays are [..., runs]."""
    runs = {game: np.asarray(values, dtype=np.float64) for game, values in scores.items()}
    value = float(aggregate(runs))
    if min(len(values) for values in runs.values()) < 2:
        return Estimate(value, None)
    rng = np.random.default_rng(0)  # the same table each time
    drawn = {game: values[rng.integers(len(values), size=(RESAMPLES, len(values)))] for game, values in runs.items()}
    return Estimate(value, interval_of(aggregate(drawn)))


def interval_of(resampled: Array) -> tuple[float, float]:
    """The 95% bootstrap interval, from the values of RESAMPLES samples."""
    low, high = np.percentile(resampled, INTERVAL)
    return float(low), float(high)


AGENTS = ("DQN", "DQN with Adam", "Rainbow")  # the last three figures of a game


class Published(NamedTuple):
    """Mean returns in a game.

    Of random play and of a human player: the table of google-deepmind/dqn_zoo. Of agents: training games in the tenth
    million of frames, five runs each, from `baselines/atari/data` of google/dopamine. Their games have sticky actions
    (0.25), no life information, at most 108,000 frames, and only the actions that each game needs; one in a hundred
    actions is random. DQN is the version in TensorFlow with RMSProp, DQN with Adam the one in JAX.
    """

    random: float
    human: float
    agents: tuple[float | None, ...]  # in the order of AGENTS


def _published() -> dict[str, Published]:
    """The table beside this file. It lacks Surround, which has no NoFrameskip-v4 id."""
    found = {}
    with Path(__file__).with_name("published_scores.csv").open(encoding="utf-8", newline="") as file:
        for game, *cells in list(csv.reader(file))[1:]:
            random, human, *agents = (float(cell) if cell else None for cell in cells)
            found[game] = Published(random or 0.0, human or 0.0, tuple(agents))
    return found


PUBLISHED = _published()
