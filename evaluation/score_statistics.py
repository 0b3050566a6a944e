"""Statistics of test games: mean, median, bootstrap interval, human-normalised score; in a file and on a display."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.parallel_games import GameResult
from option_flags import Config, EnvironmentOptions
from reports.number_format import number, percent, table_lines
from reports.run_display import Cards, Status
from reports.scores import RESAMPLES, human_normalised, interval_of
from run_files.checkpoint import Checkpoint
from run_files.metrics import Report

PUBLISHED_FRAMES = 18_000  # of the shortest games that are compared with people's, five minutes


def score_figures(results: Sequence[GameResult], environment: EnvironmentOptions) -> dict[str, Any]:
    """The statistics of some games, under the names that result files use.

    Games that were cut off earlier than published ones have no human-normalised score. With a single game, deviation
    and interval are None. The bootstrap uses its own fixed seed, so equal returns give equal intervals.
    """
    returns = np.array([result.return_ for result in results], np.float64)
    several, cut_off = len(returns) > 1, sum(result.cut_off for result in results)
    is_comparable = not cut_off or environment.max_game_frames >= PUBLISHED_FRAMES
    return {
        "cut_off": cut_off,
        "return_mean": float(returns.mean()),
        "return_mean_95": bootstrap_interval(returns, np.random.default_rng(0)) if several else None,
        "return_median": float(np.median(returns)),
        "return_std": float(returns.std(ddof=1)) if several else None,  # with n − 1 in the divisor
        "return_min": float(returns.min()),
        "return_max": float(returns.max()),
        "human_normalised": human_normalised(environment.env, float(returns.mean())) if is_comparable else None,
        "length_mean": float(np.mean([result.length for result in results])),
    }


def bootstrap_interval(values: NDArray[np.float64], rng: np.random.Generator) -> tuple[float, float]:
    """The 95% interval of the mean, from the means of many samples of n values drawn with replacement, 100 at once."""
    means = [values[rng.integers(len(values), size=(100, len(values)))].mean(axis=1) for _ in range(RESAMPLES // 100)]
    return interval_of(np.concatenate(means))


def best_median_worst(returns: Sequence[float]) -> dict[str, int]:
    """The indices of the best, the median and the worst game, each once: two games have no median, one has no worst.

    Of equal returns, the first game is the best one and the last game the worst one.
    """
    order = sorted(range(len(returns)), key=lambda game: (-returns[game], game))
    names = {order[-1]: "worst", order[(len(order) - 1) // 2]: "median", order[0]: "best"}
    return {name: game for game, name in names.items()}


def result_content(
    config: Config, checkpoint: Checkpoint, results: Sequence[GameResult], seconds: float
) -> dict[str, Any]:
    """The content of the result file: how the games were played, their statistics, and each game."""
    environment = config.environment
    return {
        "checkpoint": str(checkpoint.path),
        "checkpoint_agent_steps": checkpoint.agent_steps,
        "checkpoint_updates": checkpoint.updates,
        "policy": config.test.test_policy,
        "seed": config.run.seed,
        **asdict(environment),
        **(asdict(config.realtime) if environment.in_real_time else {}),
        "games_wanted": config.test.test_episode_count,
        "games": len(results),
        **score_figures(results, environment),
        "seconds": seconds,
        "agent_steps_per_second": sum(result.length for result in results) / max(seconds, 1e-9),
        "game_numbers": [result.game for result in results],
        "returns": [result.return_ for result in results],
        "lengths": [result.length for result in results],
        "cut_off_games": [result.game for result in results if result.cut_off],
    }


# --- On the terminal --------------------------------------------------------------------------------------------------

CARDS: Cards = {
    "games": (("ended", "{games}", "of {max_games}"), ("processes", "{worker_count}", "")),
    "speed and time": (("steps/s", "{speed}", ""), ("elapsed", "{seconds}", ""), ("left", "{seconds_left}", "")),
    "returns": (("mean", "{return_mean}", ""), ("lowest", "{return_min}", ""), ("highest", "{return_max}", "")),
}
LINE = {
    **{"done {done}": 11, "games {games} of {max_games}": 20, "speed {speed}/s": 14, "time {seconds}": 11},
    **{"left {seconds_left}": 11, "return {return_mean}": 0},
}


def status_of_test(games: int, processes: int, seconds: float, returns: Sequence[float], agent_steps: int) -> Status:
    """The state of a test of so many games; `returns` and `agent_steps` are those of finished games."""
    ended = len(returns)
    figures: Report = {
        "games": ended,
        "max_games": games,
        "worker_count": processes,
        "done": ended / games,
        "seconds": seconds,
        "seconds_left": seconds * (games / ended - 1) if ended else None,  # if the others take as long as these
        "speed": agent_steps / max(seconds, 1e-9),
        "return_mean": sum(returns) / ended if ended else None,
        "return_min": min(returns, default=None),
        "return_max": max(returns, default=None),
    }
    return Status(figures=figures, cards=CARDS, texts=LINE)


def result_lines(result: Mapping[str, Any]) -> list[str]:
    """The results of a test as lines; `result` is the content of the result file."""
    games, wanted = result["games"], result["games_wanted"]
    lines = [f"{games:,} games in {result['seconds']:,.0f} s, {result['agent_steps_per_second']:,.0f} agent steps/s"]
    if games < wanted:
        lines[0] = f"stopped after {games:,} of {wanted:,} games, {result['seconds']:,.0f} s"
        lines.append("short games end first, so the mean of all games may differ from this one")
    interval, std, human = result["return_mean_95"], result["return_std"], result["human_normalised"]
    between = "" if interval is None else f"{number(interval[0])} to {number(interval[1])} with 95% confidence"
    scale = "0% is random play, 100% a human tester"
    rows = [
        ("return", "mean", number(result["return_mean"]), between),
        ("", "median", number(result["return_median"]), ""),
        *([] if std is None else [("", "standard deviation", number(std), "")]),
        ("", "lowest", number(result["return_min"]), ""),
        ("", "highest", number(result["return_max"]), ""),
        *([] if human is None else [("", "human-normalised", percent(human), scale)]),
        ("length", "mean", f"{result['length_mean']:,.0f}", "agent steps"),
        ("", "cut off", f"{result['cut_off']:,}", "games"),
    ]
    return [*lines, *table_lines(rows, right={2})]
