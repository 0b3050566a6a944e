"""Tests a checkpoint: plays complete games on all cores, writes their results to a file, and films some of them."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from agents.acting import flat_weights, weight_count
from agents.network import make_network
from agents.spaces import check_spaces, make_unroll_layout
from agents.torsos.own_torso import note_on_source
from evaluation.parallel_games import GameResult, evaluation_options, slots_for
from evaluation.player_pool import PlayerPool
from evaluation.player_process import PlayerProcess
from evaluation.realtime_games import as_trained
from evaluation.score_statistics import score_figures
from evaluation.show_games import show_games
from machine.capacity import usable_cores, usable_memory
from machine.device import choose_precision
from machine.machine_setup import settle_seed
from machine.process_memory import check_processes
from machine.stop_signals import StopSignals
from option_flags import Config
from options.rules import UsageError, counted
from processes.failures import RunFailedError
from processes.pool import ChildPool
from reports.console import Console, make_console
from reports.run_header import protocol_in_words
from reports.scoreboard import TestStatus, result_lines
from reports.unused_options import unused_in_test
from run_files.checkpoint import Checkpoint, refusing_foreign_content
from run_files.inherited_options import check_playable
from run_files.run_folder import write_json
from workers.memory.shared_weights import SharedWeights
from workers.realtime.requirements import check_realtime
from wrappers.environment import MakeWatchedEnvironment

POLL_SECONDS = 0.1  # longest time between two checks for signals, and between two updates of the display
SHOWN_GAMES = 30  # --render shows the best, the median and the worst of this many first games


def score_checkpoint(config: Config, make_environment: MakeWatchedEnvironment, checkpoint: Checkpoint) -> Path | None:
    """Play test games with the checkpoint's policy and write their results; with --render, show some of the games.

    Returns the path of the result file, or None if no game ended. Everything is checked before a process starts.
    """
    check_playable(config, checkpoint)
    config = settle_seed(config)
    config = replace(config, environment=evaluation_options(config.environment))
    config, latency = with_latency_of_training(config, checkpoint)
    games = config.test.test_episode_count
    processes = min(config.workers.worker_count or usable_cores(), games)
    slots = slots_for(games)
    check_processes(processes, slots, usable_memory())
    torch.set_num_threads(1)
    layout = make_unroll_layout(config, make_environment)
    with refusing_foreign_content(checkpoint):
        check_spaces(checkpoint.content, layout)
    precision = choose_precision(config.run.precision, torch.device("cpu"))
    network = make_network(config.network, layout, precision)
    inference_processes = check_realtime(config, layout, make_environment, processes, slots, precision)
    with refusing_foreign_content(checkpoint):
        network.load_saved(checkpoint.content["learner"]["network"])
    _check_writable(checkpoint.run_folder)
    begun = int(time.time())

    with ExitStack() as cleanup:
        stop = cleanup.enter_context(StopSignals())
        console = make_console(config.report.console, config.report.console_period, sys.stdout)
        console.start([*_header(config, checkpoint, processes), *latency, *note_on_source(checkpoint.content)])
        weights = SharedWeights(weight_count(network))
        cleanup.callback(weights.close)
        weights.publish(0, flat_weights(network))
        player = PlayerProcess(
            make_environment=make_environment,
            environment=config.environment,
            network=config.network,
            layout=layout,
            compute_dtype=precision,
            weights=weights,
            seed=(config.seed,),
            slots=slots,
            greedy=config.test.test_policy == "greedy",
            logged=SHOWN_GAMES if config.test.render else 0,
            low_priority=False,
            realtime=config.realtime,
            inference_processes=inference_processes,
            timeout=config.workers.worker_timeout,
        )
        progress = TestProgress(games)
        children = ChildPool(console.message, silence=config.workers.worker_timeout)
        players = PlayerPool(children, player, processes, range(games))
        cleanup.callback(players.close)
        try:
            play_games(players, progress, console, stop, processes)
        finally:  # the results so far are written even if the players fail
            players.close()
            written = conclude(config, checkpoint, progress, console, begun)
        if isinstance(written, str):
            raise RunFailedError(written)
        if config.test.render and not stop.requested and written is not None:
            first = [progress.results[game] for game in range(min(games, SHOWN_GAMES))]
            show_games(first, config, make_environment, written, console.message, stop)
    return written


def with_latency_of_training(config: Config, checkpoint: Checkpoint) -> tuple[Config, list[str]]:
    """The configuration of a test in real time, and a line about it: actions take as long as in training.

    A policy learns the delay that it is trained with. --inference_latency and --inference_processes set another one.
    """
    given = config.realtime
    realtime = as_trained(given, checkpoint.action_ms)
    if not config.environment.in_real_time or realtime == given:
        return config, []
    processes = given.inference_processes or checkpoint.inference_processes
    said = (
        f"actions take as long as in training: --inference_latency={realtime.inference_latency}; another one beats it"
    )
    return replace(config, realtime=replace(realtime, inference_processes=processes)), [said]


@dataclass
class TestProgress:
    """The games that have ended so far."""

    games_wanted: int
    begun: float = field(default_factory=time.monotonic)
    results: dict[int, GameResult] = field(default_factory=dict)
    seconds: float = 0.0  # from the start to the end of the latest finished game

    def add(self, results: Sequence[GameResult]) -> None:
        self.results |= {result.game: result for result in results}
        self.seconds = time.monotonic() - self.begun

    @property
    def agent_steps(self) -> int:
        return sum(result.length for result in self.results.values())

    def status(self, now: float, processes: int) -> TestStatus:
        return TestStatus(
            games=self.games_wanted,
            seconds=now - self.begun,
            worker_count=processes,
            returns=[result.return_ for result in self.results.values()],
            agent_steps=self.agent_steps,
        )


def play_games(
    players: PlayerPool, progress: TestProgress, console: Console, stop: StopSignals, processes: int
) -> None:
    """Collect results, and show how many there are, until all games have ended or a stop signal arrives."""
    while players.has_unfinished_games and not stop.requested:
        progress.add(players.wait(POLL_SECONDS))
        now = time.monotonic()
        at_the_end = stop.requested or not players.has_unfinished_games
        if console.due(now) or at_the_end:
            console.show(progress.status(now, processes), now)


def conclude(
    config: Config, checkpoint: Checkpoint, progress: TestProgress, console: Console, begun: int
) -> Path | str | None:
    """Print the results and write their file. Returns its path, why it could not be written, or None without games."""
    if not progress.results:
        console.close(["stopped before any game ended: there are no results, and no file is written"])
        return None
    result = result_content(config, checkpoint, progress)
    written = write_results(checkpoint.run_folder, begun, result)
    console.close([*result_lines(result), written if isinstance(written, str) else f"written   {written}"])
    return written


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


def result_content(config: Config, checkpoint: Checkpoint, progress: TestProgress) -> dict[str, Any]:
    """The content of the result file: how the games were played, their statistics, and each game."""
    results = [progress.results[game] for game in sorted(progress.results)]
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
        "games_wanted": progress.games_wanted,
        "games": len(results),
        **score_figures(results, environment.env),
        "seconds": progress.seconds,
        "agent_steps_per_second": progress.agent_steps / max(progress.seconds, 1e-9),
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


def _header(config: Config, checkpoint: Checkpoint, processes: int) -> list[str]:
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


def _check_writable(folder: Path) -> None:
    """Raise UsageError if the folder cannot be written."""
    if not os.access(folder, os.W_OK):
        raise UsageError(
            f"--load_model_url: the results of a test go into {folder}, which cannot be written; "
            "copy the checkpoint to a folder that you can write to."
        )
