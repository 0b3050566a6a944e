"""Statistics of finished games (mean, median, bootstrap interval, human-normalised score), and the file with them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.parallel_games import GameResult
from option_flags import Config
from reports.scores import RESAMPLES, human_normalised, interval_of
from run_files.checkpoint import Checkpoint
from run_files.run_folder import write_json


def score_figures(results: Sequence[GameResult], env: str) -> dict[str, Any]:
    """The statistics of some games, under the names that result files use.

    With a single game, deviation and interval are None. The bootstrap uses its own fixed seed, so equal returns give
    equal intervals.
    """
    returns = np.array([result.return_ for result in results], np.float64)
    several = len(returns) > 1
    return {
        "cut_off": sum(result.cut_off for result in results),
        "return_mean": float(returns.mean()),
        "return_mean_95": bootstrap_interval(returns, np.random.default_rng(0)) if several else None,
        "return_median": float(np.median(returns)),
        "return_std": float(returns.std(ddof=1)) if several else None,  # with n − 1 in the divisor
        "return_min": float(returns.min()),
        "return_max": float(returns.max()),
        "human_normalised": human_normalised(env, float(returns.mean())),
        "length_mean": float(np.mean([result.length for result in results])),
    }


def bootstrap_interval(values: NDArray[np.float64], rng: np.random.Generator) -> tuple[float, float]:
    """The 95% interval of the mean, from the means of many samples of n values drawn with replacement."""
    means = [values[rng.integers(len(values), size=len(values))].mean() for _ in range(RESAMPLES)]
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
