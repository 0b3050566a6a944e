"""Scores of games: published ones, what is human-normalised, and one number for the returns of many games."""

import re
from collections.abc import Callable, Mapping, Sequence
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
    dqn: float | None = None
    dqn_with_adam: float | None = None
    rainbow: float | None = None

    @property
    def agents(self) -> tuple[float | None, ...]:
        return self[2:]


# Without Surround, which has no NoFrameskip-v4 id.
PUBLISHED = {
    "Alien": Published(227.8, 7127.7, 925.6, 918.8, 1220.4),
    "Amidar": Published(5.8, 1719.5, 178.1, 151.0, 301.4),
    "Assault": Published(222.4, 742.0, 988.2, 1131.4, 1430.3),
    "Asterix": Published(210.0, 8503.3, 2381.7, 2193.6, 2699.2),
    "Asteroids": Published(719.1, 47388.7, 424.0, 694.9, 755.0),
    "Atlantis": Published(12850.0, 29028.1, 7365.3, 13021.3, 80837.7),
    "BankHeist": Published(14.2, 753.1, 474.4, 621.0, 895.5),
    "BattleZone": Published(2360.0, 37187.5, 3598.5, 18594.1, 20209.1),
    "BeamRider": Published(363.9, 16926.5, 869.3, 5218.0, 5982.6),
    "Berzerk": Published(123.7, 2630.4, 488.5, 406.2, 443.2),
    "Bowling": Published(23.1, 160.7, 29.3, 28.0, 44.5),
    "Boxing": Published(0.1, 12.1, 37.3, 56.6, 68.4),
    "Breakout": Published(1.7, 30.5, 21.5, 46.9, 41.9),
    "Centipede": Published(2090.9, 12017.0, 2832.1, 1977.5, 4992.1),
    "ChopperCommand": Published(811.0, 7387.8, 997.6, 846.1, 2265.5),
    "CrazyClimber": Published(10780.5, 35829.4, 64611.0, 55613.8, 103539.4),
    "Defender": Published(2874.5, 18688.9),
    "DemonAttack": Published(152.1, 1971.0, 1503.1, 2830.8, 2477.5),
    "DoubleDunk": Published(-18.6, -16.4, -18.9, -18.3, -18.9),
    "Enduro": Published(0.0, 860.5, 589.6, 926.0, 1601.1),
    "FishingDerby": Published(-91.7, -38.7, -42.5, -36.3, 10.4),
    "Freeway": Published(0.0, 29.6, 8.3, 6.7, 32.2),
    "Frostbite": Published(65.2, 4334.7, 269.1, 1029.8, 2510.1),
    "Gopher": Published(257.6, 2412.5, 1470.8, 2038.8, 4279.5),
    "Gravitar": Published(173.0, 3351.4, 167.9, 238.3, 202.3),
    "Hero": Published(1027.0, 30826.4, 2679.3, 3033.1, 9323.8),
    "IceHockey": Published(-11.2, 0.9, -9.7, -7.8, -5.3),
    "Jamesbond": Published(29.0, 302.8, 47.3, 249.6, 514.6),
    "Kangaroo": Published(52.0, 3035.0, 539.9, 1330.6, 5501.7),
    "Krull": Published(1598.0, 2665.5, 4229.2, 3041.5, 5972.5),
    "KungFuMaster": Published(258.5, 22736.3, 15997.8, 16081.9, 18074.1),
    "MontezumaRevenge": Published(0.0, 4753.3, 0.0, 0.0, 0.0),
    "MsPacman": Published(307.3, 6951.6, 2187.2, 2074.1, 2347.5),
    "NameThisGame": Published(2292.3, 8049.0, 4000.9, 5553.2, 8604.0),
    "Phoenix": Published(761.4, 7242.6, 4948.5, 3963.1, 4830.2),
    "Pitfall": Published(-229.4, 6463.7, -60.8, -25.6, -14.7),
    "Pong": Published(-20.7, 14.6, -4.9, 6.3, 15.2),
    "PrivateEye": Published(24.9, 69571.3, 118.3, 367.0, 111.3),
    "Qbert": Published(163.9, 13455.0, 1658.4, 1495.0, 5353.9),
    "Riverraid": Published(1338.5, 17118.0, 3198.8, 3492.9, 4272.9),
    "RoadRunner": Published(11.5, 7845.0, 27980.4, 30201.2, 33412.9),
    "Robotank": Published(2.2, 11.9, 4.5, 13.8, 19.1),
    "Seaquest": Published(68.4, 42054.7, 299.6, 875.7, 1641.1),
    "Skiing": Published(-17098.1, -4336.9, -19568.8, -29702.0, -24070.0),
    "Solaris": Published(1236.3, 12326.7, 1645.3, 1399.3, 1289.5),
    "SpaceInvaders": Published(148.0, 1668.7, 663.3, 704.5, 743.7),
    "StarGunner": Published(664.0, 10250.0, 692.1, 1357.3, 1488.8),
    "Tennis": Published(-23.8, -8.3, -21.9, -9.9, -1.0),
    "TimePilot": Published(3568.0, 5229.2, 1539.8, 2347.1, 2703.7),
    "Tutankham": Published(11.4, 167.6, 112.2, 166.1, 179.5),
    "UpNDown": Published(533.4, 11693.2, 7669.4, 4547.3, 12397.6),
    "Venture": Published(0.0, 1187.5, 25.5, 18.0, 19.9),
    "VideoPinball": Published(16256.9, 17667.9, 5129.8, 33451.7, 26245.1),
    "WizardOfWor": Published(563.5, 4756.5, 482.0, 1601.2, 2213.3),
    "YarsRevenge": Published(3092.9, 54576.9, 9426.7, 10358.3, 10708.5),
    "Zaxxon": Published(32.5, 9173.3, 112.5, 1838.3, 3661.8),
}
