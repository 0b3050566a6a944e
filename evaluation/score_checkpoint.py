"""Tests a checkpoint: plays complete games on all cores, writes their results to a file, and films some of them."""

import itertools
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from agents.acting import flat_weights, weight_count
from agents.network import ActorCritic
from agents.spaces import check_spaces, make_unroll_layout
from evaluation.parallel_games import GameResult, GameSeries, evaluation_options, game_streams, slots_for
from evaluation.players import PlayerPool, PlayerProcess, as_trained, player_of
from evaluation.recorded_games import RecordedGame, folder_for_games, write_game
from evaluation.score_statistics import result_content, result_lines, status_of_test
from evaluation.show_games import show_games
from machine.capacity import bytes_of_processes, check_memory, usable_cores
from machine.device import choose_precision
from machine.machine_setup import settle_seed
from machine.stop_signals import StopSignals
from option_flags import Config
from options.rules import UsageError, counted
from processes.fork_server import start_forked
from processes.pool import ChildPool, RunFailedError
from reports.console import Console, make_console
from reports.hints import unused_in_test
from reports.run_header import protocol_in_words
from run_files.checkpoint import Checkpoint, check_playable, refusing_foreign_content
from run_files.run_folder import write_json
from workers.realtime.timing import check_realtime
from workers.shared_weights import SharedWeights
from wrappers.environment import MakeEnvironment

POLL_SECONDS = 0.1  # longest time between two checks for signals, and between two updates of the display
SHOWN_GAMES = 30  # --render shows the best, the median and the worst of this many first games


def score_checkpoint(config: Config, make_environment: MakeEnvironment, checkpoint: Checkpoint) -> Path | None:
    """Play test games with the checkpoint's policy and write their results; with --render, show some of the games.

    Returns the path of the result file, or None if no game ended. Everything is checked before a process starts.
    """
    check_playable(config, checkpoint)
    config = settle_seed(config)
    config = replace(config, environment=evaluation_options(config.environment))
    config, latency = with_latency_of_training(config, checkpoint)
    games = config.test.test_episode_count
    processes = min(config.workers.worker_count or usable_cores(), games)
    torch.set_num_threads(1)
    with ExitStack() as cleanup:
        player, network = make_player(config, make_environment, checkpoint, processes)
        folder = None if config.replay.demonstrations is None else folder_for_games(config)
        player.setup.weights.publish(0, flat_weights(network))
        stop = cleanup.enter_context(StopSignals())
        console = make_console(config.report.console, config.report.console_period, sys.stdout)
        console.start([*_header(config, checkpoint, processes), *latency])
        played = PlayedGames(games, processes)
        children = ChildPool(console.message, silence=config.workers.worker_timeout, start=start_forked)
        players = PlayerPool(children, player, processes, range(games))
        cleanup.callback(players.close)
        try:
            played.play(players, console, stop)
        finally:  # the results so far are written even if the players fail
            written = played.conclude(config, checkpoint, console)
        for result in played.results.values():
            if folder is not None and result.log is not None:
                seed = game_streams(player.series.seed, result.game)[0]
                write_game(folder, RecordedGame(config.environment, seed, result.log.actions, result.return_))
        if config.test.render and not stop.requested and written is not None:
            first = [played.results[game] for game in range(min(games, SHOWN_GAMES))]
            show_games(player.series, first, written, players, stop)
    return written


def make_player(
    config: Config, make_environment: MakeEnvironment, checkpoint: Checkpoint, processes: int
) -> tuple[PlayerProcess, ActorCritic]:
    """What each process of the test does, and the network of the checkpoint, whose weights it needs."""
    slots = slots_for(config.test.test_episode_count)
    layout = make_unroll_layout(config, make_environment)
    with refusing_foreign_content(checkpoint):
        check_spaces(checkpoint.content, layout)
    precision = choose_precision(config.run.precision, torch.device("cpu"))
    network = ActorCritic(config.network, layout, precision)
    inference_processes, _ = check_realtime(config, layout, make_environment, processes, slots, precision)
    check_memory(bytes_of_processes(processes, slots, 0, inference_processes))
    with refusing_foreign_content(checkpoint):
        network.load_saved(checkpoint.content["learner"]["network"])
    if not os.access(checkpoint.run_folder, os.W_OK):
        raise UsageError(
            f"--load_model_url: the results of a test go into {checkpoint.run_folder}, which cannot be written; "
            "copy the checkpoint to a folder that you can write to."
        )
    series = GameSeries(
        make_environment=make_environment,
        environment=config.environment,
        seed=(config.seed,),
        slots=slots,
        greedy=config.test.test_policy == "greedy",
        logged=config.test.test_episode_count if config.replay.demonstrations else SHOWN_GAMES * config.test.render,
    )
    weights = SharedWeights(weight_count(network))
    return player_of(config, series, layout, precision, weights, inference_processes), network


def with_latency_of_training(config: Config, checkpoint: Checkpoint) -> tuple[Config, list[str]]:
    """The configuration of a test in real time, and a line about it: actions take as long as in training.

    A policy learns the delay that it is trained with. --inference_latency and --inference_processes set another one.
    """
    given, trained = config.realtime, checkpoint.content["progress"]
    realtime = as_trained(given, trained["action_ms"])
    if not config.environment.in_real_time or realtime == given:
        return config, []
    processes = given.inference_processes or trained["inference_processes"]
    said = (
        f"actions take as long as in training: --inference_latency={realtime.inference_latency}; another one beats it"
    )
    return replace(config, realtime=replace(realtime, inference_processes=processes)), [said]


@dataclass
class PlayedGames:
    """The games that have ended so far, by number."""

    games: int  # in all
    processes: int
    begun: float = field(default_factory=time.time)
    results: dict[int, GameResult] = field(default_factory=dict)
    seconds: float = 0.0  # from the start to the end of the latest finished game

    def play(self, players: PlayerPool, console: Console, stop: StopSignals) -> None:
        """Collect results, and show how many there are, until all games have ended or a stop signal arrives."""
        begun = time.monotonic()
        while players.under_way and not stop.requested:
            for result in players.wait(POLL_SECONDS):
                self.results[result.game] = result
                self.seconds = time.monotonic() - begun
            now = time.monotonic()
            if console.due(now) or stop.requested or not players.under_way:  # at the end in any case
                returns = [result.return_ for result in self.results.values()]
                steps = sum(result.length for result in self.results.values())
                console.show(status_of_test(self.games, self.processes, now - begun, returns, steps), now)

    def conclude(self, config: Config, checkpoint: Checkpoint, console: Console) -> Path | None:
        """Print the results and write their file. Returns its path, or None without games."""
        if not self.results:
            console.close(["stopped before any game ended: there are no results, and no file is written"])
            return None
        result = result_content(config, checkpoint, sorted(self.results.values()), self.seconds)
        times = itertools.count(int(self.begun))  # another test may have begun in the same second
        path = next(path for begun in times if not (path := checkpoint.run_folder / f"test_{begun}.json").exists())
        try:
            write_json(path, result)
            said = f"written   {path}"
        except OSError as error:
            said = f"{path} could not be written ({error.strerror})"
            raise RunFailedError(said) from None
        finally:
            console.close([*result_lines(result), said])
        return path


def _header(config: Config, checkpoint: Checkpoint, processes: int) -> Sequence[str]:
    games, policy = config.test.test_episode_count, config.test.test_policy
    actions = {
        "sampled": "actions are drawn from the policy; --test_policy=greedy takes the most likely ones",
        "greedy": "the most likely actions are taken; --test_policy=sampled draws them from the policy",
    }
    protocol = protocol_in_words(config.environment, leave_out=("episodic_life",))  # a test plays whole games
    subject = [config.environment.env, counted(games, "game"), f"{policy} policy", protocol]
    subject += [f"seed {config.run.seed}", counted(processes, "process")]
    return [
        ", ".join(filter(None, subject)),
        f"{checkpoint.path}: {checkpoint.agent_steps:,} agent steps, {checkpoint.updates:,} updates",
        actions[policy],
        *unused_in_test(config),
    ]
