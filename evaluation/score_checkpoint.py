"""A test: whole games with the policy of a checkpoint, on all cores, and what they say of it."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from agents.flat_weights import flat_weights, weight_count
from agents.network import make_network
from agents.spaces import make_unroll_layout
from evaluation.parallel_games import SEATS, GameResult, as_tested, figures_of
from evaluation.player_pool import Players
from evaluation.player_process import Player
from evaluation.show_games import show_games
from machine.device import choose_precision, usable_cores
from machine.machine_setup import settle_seed
from machine.process_memory import check_processes
from machine.stop_signals import StopSignals
from option_flags import Config
from options.rules import UsageError
from reports.console import Console, make_console
from reports.scoreboard import TestStatus, verdict
from reports.unused_options import unused_in_test
from run_files.checkpoint import Checkpoint, check_playable
from run_files.run_folder import write_json
from workers.failures import RunFailedError
from workers.shared_weights import SharedWeights
from wrappers.environment_types import MakeWatchedEnvironment

POLL_SECONDS = 0.1  # longest wait before signals and the display are looked after
SHOWN_GAMES = 30  # games that the best, the median and the worst are chosen from


@dataclass
class Tally:
    """The games that are over so far."""

    wanted: int
    begun: float = field(default_factory=time.monotonic)
    results: dict[int, GameResult] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, results: Sequence[GameResult]) -> None:
        self.results |= {result.game: result for result in results}
        self.seconds = time.monotonic() - self.begun

    @property
    def in_order(self) -> list[GameResult]:
        return [self.results[game] for game in sorted(self.results)]

    @property
    def agent_steps(self) -> int:
        return sum(result.length for result in self.results.values())


def test(config: Config, make_environment: MakeWatchedEnvironment, checkpoint: Checkpoint) -> Path | None:
    """Play the games, show them as configured, and return the file of results; None where no game came to its end.

    Everything that can be wrong is looked at before a process is started.
    """
    check_playable(config, checkpoint)
    config = settle_seed(config)
    config = replace(config, environment=as_tested(config.environment))
    games = config.test.test_episode_count
    processes = min(config.workers.worker_count or usable_cores(), games)
    check_processes(processes, SEATS)
    torch.set_num_threads(1)
    layout = make_unroll_layout(config, make_environment)
    precision = choose_precision(config.run.precision, torch.device("cpu"))
    network = make_network(config.network, layout, precision)
    network.load_saved(checkpoint.content["learner"]["network"])
    path = _result_path(checkpoint.run_folder)

    with ExitStack() as cleanup:
        stop = cleanup.enter_context(StopSignals())
        console = make_console(config.report.console, config.report.console_period, sys.stdout)
        console.start(_header(config, checkpoint, processes))
        weights = SharedWeights(weight_count(network))
        cleanup.callback(weights.close)
        weights.publish(0, flat_weights(network))

        def make_player() -> Player:
            return Player(
                make_environment=make_environment,
                environment=config.environment,
                network=config.network,
                layout=layout,
                compute_dtype=precision,
                weights=weights,
                seed=(config.seed,),
                greedy=config.test.test_policy == "greedy",
                logged=SHOWN_GAMES if config.test.render else 0,
                low_priority=False,
            )

        tally = Tally(games)
        players = Players(make_player, processes, range(games))
        cleanup.callback(players.close)
        try:
            play(players, tally, console, stop, processes)
        finally:
            players.close()
            lines = ["stopped before any game was over: nothing to say, and nothing written"]
            failure = None
            if tally.results:
                result = results_of(config, checkpoint, tally)
                failure = _write(path, result)
                lines = [*verdict(result), failure or f"written   {path}"]
            console.close(lines)
        if failure is not None:
            raise RunFailedError(failure)
        if config.test.render and not stop.requested:
            first = [tally.results[game] for game in range(min(games, SHOWN_GAMES))]
            show_games(first, config, make_environment, path, console.message, stop)
    return path if tally.results else None


def play(players: Players, tally: Tally, console: Console, stop: StopSignals, processes: int) -> None:
    """Wait for the games to end, one after another, until all have, or a signal came."""
    while players.at_work and not stop.requested:
        tally.add(players.wait(POLL_SECONDS))
        now = time.monotonic()
        at_the_end = stop.requested or not players.at_work
        if console.due(now) or at_the_end:
            console.show(
                TestStatus(
                    games=tally.wanted,
                    seconds=now - tally.begun,
                    worker_count=processes,
                    returns=[result.return_ for result in tally.results.values()],
                    agent_steps=tally.agent_steps,
                ),
                now,
            )


def results_of(config: Config, checkpoint: Checkpoint, tally: Tally) -> dict[str, Any]:
    """What goes into the file: what was played with, what it gave in sum, and each game."""
    results = tally.in_order
    environment = config.environment
    return {
        "env": environment.env,
        "checkpoint": str(checkpoint.path),
        "checkpoint_agent_steps": checkpoint.agent_steps,
        "checkpoint_updates": checkpoint.updates,
        "policy": config.test.test_policy,
        "seed": config.run.seed,
        "noop_threshold": environment.noop_threshold,
        "repeat_action_probability": environment.repeat_action_probability,
        "max_game_frames": environment.max_game_frames,
        "games_wanted": tally.wanted,
        "games": len(results),
        **figures_of(results, environment.env),
        "seconds": tally.seconds,
        "agent_steps_per_second": tally.agent_steps / max(tally.seconds, 1e-9),
        "game_numbers": [result.game for result in results],
        "returns": [result.return_ for result in results],
        "lengths": [result.length for result in results],
        "cut_off_games": [result.game for result in results if result.cut_off],
    }


def _header(config: Config, checkpoint: Checkpoint, processes: int) -> list[str]:
    games, policy = config.test.test_episode_count, config.test.test_policy
    return [
        f"{config.environment.env}, {games:,} games, {policy} policy, seed {config.run.seed}, {processes} processes",
        f"{checkpoint.path}: {checkpoint.agent_steps:,} agent steps, {checkpoint.updates:,} updates",
        *unused_in_test(config),
    ]


def _write(path: Path, result: dict[str, Any]) -> str | None:
    """Write the results; return what went wrong, if anything did."""
    try:
        write_json(path, result)
    except OSError as error:
        return f"{path} could not be written ({error.strerror})"
    return None


def _result_path(folder: Path) -> Path:
    """A new name in the folder, which must be one that can be written."""
    if not os.access(folder, os.W_OK):
        raise UsageError(
            f"--load_model_url: the results of a test go into {folder}, which cannot be written; "
            "a copy of the checkpoint in a folder of your own would be right."
        )
    now = int(time.time())
    while (path := folder / f"test_{now}.json").exists():
        now += 1
    return path
