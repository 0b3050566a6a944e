"""Test games with two treatments of a lost life: is a policy better if a test does what training did?

    python -m tests.benchmarks.life_loss results/<run> --games=128

Training (with --episodic_life) begins a new episode after a lost life: the frame stack repeats the frame after FIRE,
and the LSTM is empty. A test goes on: frames and memory stay. Both press no-op and FIRE after the lost life. The same
games are played with both treatments, with sampled actions, each treatment in a process of its own. The intervals hold
95% of 10,000 means of returns that are drawn from the games with replacement.
"""

import argparse
import multiprocessing
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from agents.acting import Actor
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from evaluation.parallel_games import GameResult, GameSeries, ParallelGames, evaluation_options, slots_for
from machine.device import choose_precision
from machine.system_settings import use_one_thread
from option_flags import Config
from run_files.checkpoint import find_checkpoint
from wrappers.environment import as_observation
from wrappers.make_environment import make_environment

SEED = 1
TREATMENTS = {"kept": "frames and memory are kept", "restarted": "both start anew, as in training"}


class GamesByLife(ParallelGames):
    """Games in which each life is an episode: frames and memory start anew after a lost life, as in training."""

    def _step_game(self, e: int, running: Any, action: Any, value: float) -> GameResult | None:
        environment = self._environments[e]
        observation, reward, terminated, truncated, _ = environment.step(action)
        self.inputs.show(e, as_observation(observation), starts=False)
        self._previous_actions[e] = action
        self._previous_rewards[e] = reward
        if not (terminated or truncated):
            return None
        observation, _ = environment.reset()  # after a lost life: the game goes on with no-op and FIRE
        finished = environment.get_wrapper_attr("take_finished_games")()
        self.inputs.show(e, as_observation(observation), starts=True)
        self._state.restart(e)
        if not finished:
            return None
        self._slots[e] = None
        game_return, length = finished[0][:2]
        return GameResult(running.game, game_return, length, truncated and not terminated, None)


def returns_of(run: str, treatment: str, games: int) -> list[float]:
    """The unclipped returns of test games with the newest weights of a run."""
    use_one_thread()
    checkpoint = find_checkpoint(run)
    config = Config.from_flags({**checkpoint.played_options, "op_mode": "test", "load_model_url": run})
    layout = make_unroll_layout(config, make_environment)
    precision = choose_precision(config.run.precision, torch.device("cpu"))
    network = ActorCritic(config.network, layout, precision)
    network.load_saved(checkpoint.content["learner"]["network"])
    whole_games = evaluation_options(config.environment)
    kind, options = {
        "kept": (ParallelGames, whole_games),
        "restarted": (GamesByLife, replace(whole_games, episodic_life=True, fire_on_life_loss=False)),
    }[treatment]
    slots = slots_for(games)
    series = GameSeries(make_environment=make_environment, environment=options, seed=(SEED,), slots=slots)
    playing = kind(series, Actor(network), layout)
    left, results = list(range(games)), []
    while left or playing.running:
        while left and playing.running < slots:
            playing.start(left.pop(0))
        results += playing.step()
    return [result.return_ for result in sorted(results)]


def interval(returns: list[float]) -> tuple[float, float]:
    """The 95% bootstrap interval of the mean."""
    draws = np.random.default_rng(SEED).choice(returns, (10_000, len(returns))).mean(1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="folder of a run with --episodic_life, or one of its checkpoints")
    parser.add_argument("--games", type=int, default=128, help="games of each treatment")
    given = parser.parse_args()
    if not find_checkpoint(given.run).played_options.get("episodic_life", True):
        parser.error(f"{given.run} was trained with --noepisodic_life, so both treatments are the same")
    with multiprocessing.get_context("spawn").Pool(len(TREATMENTS)) as pool:
        jobs = [(given.run, treatment, given.games) for treatment in TREATMENTS]
        for (_, treatment, _), returns in zip(jobs, pool.starmap(returns_of, jobs), strict=True):
            low, high = interval(returns)
            print(f"{TREATMENTS[treatment]:32} {np.mean(returns):8.1f} ({low:.1f} to {high:.1f})")


if __name__ == "__main__":
    main()
