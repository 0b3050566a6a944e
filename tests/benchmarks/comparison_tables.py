"""The tables of `tests.benchmarks.compare`: by game and over all games, with the definitions of rliable.

Agarwal et al., 2021 (arXiv 2108.13264): intervals are of a bootstrap stratified by game, the interquartile mean is over
all runs of all games, and the probability of improvement is the mean over games of P(a run of X > a run of Y), where
equal returns count half.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.number_format import table_lines
from reports.scores import bootstrap, human_normalised, interquartile_mean

NOTHING = "-"
Array = NDArray[np.float64]
Scores = Mapping[str, Array]  # by game, [..., runs]


@dataclass(frozen=True)
class Finished:
    """A run that has played all of its steps."""

    setting: str
    game: str
    seed: int
    returns: tuple[float, ...]  # of its latest games
    core_seconds: float  # of all its processes

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns)) if self.returns else float("nan")


def comparison_lines(runs: Sequence[Finished], settings: Sequence[str], planned: int) -> list[str]:
    """Both tables; the first of `settings` is the control."""
    games = list(dict.fromkeys(run.game for run in runs))
    by_game = [
        _game_row(game, setting, chosen)
        for game in games
        for setting in settings
        if (chosen := [run for run in runs if (run.game, run.setting) == (game, setting)])
    ]
    over_all = [_row_over_all(setting, settings[0], runs) for setting in settings]
    return [
        f"{len(runs)} of {planned} runs",
        "",
        *table_lines(
            by_game, ("game", "setting", "runs", "mean", "95%", "each run", "low games", "core-s"), right=range(2, 8)
        ),
        "",
        *table_lines(
            over_all,
            ("setting", "runs", "interquartile mean", "95%", f"P(better than {settings[0]})", "95%", "core-s a run"),
            right=range(1, 7),
        ),
    ]


def _game_row(game: str, setting: str, runs: Sequence[Finished]) -> list[str]:
    means = np.array([run.mean for run in runs])
    return [
        game,
        setting,
        str(len(runs)),
        _number(float(means.mean())),
        _interval({game: means}, lambda drawn: drawn[game].mean(axis=-1), _number),
        " ".join(_number(mean) for mean in means),
        f"{100 * np.mean([low_share(run.returns) for run in runs]):.0f}%",
        f"{np.mean([run.core_seconds for run in runs]):.0f}",
    ]


def _row_over_all(setting: str, control: str, runs: Sequence[Finished]) -> list[str]:
    own, others = scores_of(runs, setting), scores_of(runs, control)
    common = [game for game in own if game in others]
    if not common:
        return [setting, "0", *[NOTHING] * 5]
    normalised = {game: np.array([_normalised(game, mean) for mean in own[game]]) for game in common}
    counted = [run for run in runs if run.setting == setting]
    better = [NOTHING, NOTHING]
    if setting != control:
        pair = {f"{side}{game}": scores[game] for side, scores in (("+", own), ("-", others)) for game in common}
        better = [
            _percent(float(improvement({game: own[game] for game in common}, others))),
            _interval(pair, lambda drawn: _improvement_of_pair(drawn, common), _percent),
        ]
    return [
        setting,
        str(len(counted)),
        _percent(float(_all_games(normalised))),
        _interval(normalised, _all_games, _percent),
        *better,
        f"{np.mean([run.core_seconds for run in counted]):.0f}",
    ]


def scores_of(runs: Sequence[Finished], setting: str) -> dict[str, Array]:
    """The mean returns of the runs of a setting, by game, in the order of the seeds."""
    found: dict[str, list[float]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        if run.setting == setting:
            found.setdefault(run.game, []).append(run.mean)
    return {game: np.array(means) for game, means in found.items()}


def improvement(own: Scores, others: Scores) -> Array:
    """The mean over games of P(a run of `own` > a run of `others`); equal returns count half."""
    each = []
    for game, runs in own.items():
        difference = runs[..., :, None] - others[game][..., None, :]
        each.append(((difference > 0) + 0.5 * (difference == 0)).mean(axis=(-1, -2)))
    return np.asarray(np.mean(each, axis=0))


def _improvement_of_pair(drawn: Scores, games: Sequence[str]) -> Array:
    return improvement({game: drawn[f"+{game}"] for game in games}, {game: drawn[f"-{game}"] for game in games})


def low_share(returns: Sequence[float]) -> float:
    """The share of games below the middle between the lowest and the highest of them.

    Near 0 or 1 the games are alike; near a half, with a wide range, they are of two kinds.
    """
    if not returns:
        return float("nan")
    middle = (min(returns) + max(returns)) / 2
    return float(np.mean([value < middle for value in returns]))


def _all_games(scores: Scores) -> Array:
    return interquartile_mean(np.concatenate(list(scores.values()), axis=-1))


def _interval(scores: Scores, aggregate: Callable[[Scores], Array], words: Callable[[float], str]) -> str:
    """The 95% interval of a bootstrap that draws the runs of each game with replacement."""
    interval = bootstrap({key: runs.tolist() for key, runs in scores.items()}, aggregate).interval
    return NOTHING if interval is None else f"{words(interval[0])} to {words(interval[1])}"


def _normalised(game: str, mean: float) -> float:
    score = human_normalised(game, mean)
    return mean if score is None else score


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f}%"
