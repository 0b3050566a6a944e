"""Statistics of finished games (mean, median, bootstrap interval, human-normalised score), and the file with them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evaluation.parallel_games import GameResult
from option_flags import Config
from reports.scores import RESAMPLES, human_normalised, interval_of
from run_files.checkpoint import Checkpoint
from run_files.run_folder import write_json


class Summary(NamedTuple):
    """Statistics of the returns of n games. With a single game, `std` and `interval` are None."""

    mean: float
    median: float
    std: float | None  # sample standard deviation, with n − 1 in the divisor
    interval: tuple[float, float] | None  # 95% bootstrap interval of the mean
    min: float
    max: float


def score_figures(results: Sequence[GameResult], env: str) -> dict[str, Any]:
    """The statistics of some games, under the names that result files use."""
    summary = summarise([result.return_ for result in results])
    return {
        "cut_off": sum(result.cut_off for result in results),
        "return_mean": summary.mean,
        "return_mean_95": summary.interval,
        "return_median": summary.median,
        "return_std": summary.std,
        "return_min": summary.min,
        "return_max": summary.max,
        "human_normalised": human_normalised(env, summary.mean),
        "length_mean": float(np.mean([result.length for result in results])),
    }


def summarise(returns: Sequence[float]) -> Summary:
    """The bootstrap uses its own fixed seed, so equal returns give equal summaries."""
    values = np.asarray(returns, dtype=np.float64)
    several = len(values) > 1
    return Summary(
        mean=float(values.mean()),
        median=float(np.median(values)),
        std=float(values.std(ddof=1)) if several else None,
        interval=bootstrap_interval(values.tolist(), np.random.default_rng(0)) if several else None,
        min=float(values.min()),
        max=float(values.max()),
    )


def bootstrap_interval(values: Sequence[float], rng: np.random.Generator) -> tuple[float, float]:
    """The 95% interval of the mean, from the means of many samples of n values drawn with replacement."""
    pool = np.asarray(values, dtype=np.float64)
    means = [pool[rng.integers(len(pool), size=len(pool))].mean() for _ in range(RESAMPLES)]
    return interval_of(np.array(means))


def best_median_worst(returns: Sequence[float]) -> dict[str, int]:
    """The indices of the best, the worst and the median game.

    Of equal returns, the first game is the best one and the last game the worst one. No game appears twice: with fewer
    than three games there is no median, and with one game no worst.
    """
    order = sorted(range(len(returns)), key=lambda game: (-returns[game], game))
    chosen = {"best": order[0], "worst": order[-1], "median": order[(len(order) - 1) // 2]}
    found: dict[str, int] = {}
    for name, game in chosen.items():
        if game not in found.values():
            found[name] = game
    return found


def write_results(folder: Path, begun: int, result: Mapping[str, Any]) -> Path | str:
    """Write the result file of a test that began at this unix time. Returns its path, or why there is none."""
    path = folder / f"test_{begun}.json"
    try:
        path.touch(exist_ok=False)
        write_json(path, result)
    except FileExistsError:  # of a test that began in the same second
        return write_results(folder, begun + 1, result)
    except OSError as error:
        with suppress(OSError):
            path.unlink()  # the empty file
        return f"{path} could not be written ({error.strerror})"
    return path


def result_content(
    config: Config, checkpoint: Checkpoint, results: Sequence[GameResult], seconds: float
) -> dict[str, Any]:
    """The content of the result file: how the games were played, their statistics, and each game."""
    environment = config.environment
    return {
        "env": environment.env,
        "checkpoint": str(checkpoint.path),
        "checkpoint_agent_steps": checkpoint.agent_steps,
        "checkpoint_updates": checkpoint.updates,
        "policy": config.test.test_policy,
        "seed": config.run.seed,
        "protocol": environment.protocol,
        "full_action_space": environment.full_action_space,
        "fire_on_reset": environment.fire_on_reset,
        "noop_threshold": environment.noop_threshold,
        "repeat_action_probability": environment.repeat_action_probability,
        "max_game_frames": environment.max_game_frames,
        **_interaction(config),
        "games_wanted": config.test.test_episode_count,
        "games": len(results),
        **score_figures(results, environment.env),
        "seconds": seconds,
        "agent_steps_per_second": sum(result.length for result in results) / max(seconds, 1e-9),
        "game_numbers": [result.game for result in results],
        "returns": [result.return_ for result in results],
        "lengths": [result.length for result in results],
        "cut_off_games": [result.game for result in results if result.cut_off],
    }


def _interaction(config: Config) -> dict[str, Any]:
    """What the games do while the network computes; nothing for games that wait."""
    environment, realtime = config.environment, config.realtime
    if environment.interaction == "turns":
        return {}
    result: dict[str, Any] = {"interaction": environment.interaction, "idle_action": environment.idle_action}
    if not environment.in_real_time:
        return {**result, "action_delay": environment.action_delay}
    return {
        **result,
        "fps": realtime.fps,
        "inference_processes": realtime.inference_processes,
        "stagger": realtime.stagger,
        "inference_latency": realtime.inference_latency,
    }
