"""An animation of the best seconds of a game, played and drawn by the code for tests and films."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import gymnasium
import numpy as np
import torch
from PIL import Image

from agents.acting import Actor, flat_weights
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from evaluation.film import FRAMES_PER_SECOND, Picture
from evaluation.logged_game import LoggedGame, Replay
from evaluation.parallel_games import GameResult, GameSeries, ParallelGames, evaluation_options
from machine.device import choose_precision
from option_flags import OPTIONS, Config, EnvironmentOptions
from options.command_line import given_flags
from reports.trackers import as_gif
from run_files.checkpoint import Checkpoint, find_checkpoint
from run_files.inherited_options import check_playable
from wrappers.atari import make_atari
from wrappers.environment import MakeWatchedEnvironment, Watch

GAMES = 16  # the best of them is shown
SECONDS = 15
EVERY = 3  # raw frames: 20 pictures a second. Odd, because games draw some things only on every other frame
SIZES = ((660, 360), (550, 300), (440, 240))  # of the animation, largest first


def game_gif(run: Path, max_bytes: int) -> bytes:
    """The seconds with the most points of the best game, as large as `max_bytes` allows. Repeatable."""
    checkpoint = find_checkpoint(str(run))
    words = ["--op_mode=test", f"--load_model_url={run}", "--seed=1"]
    config = Config.from_flags({**checkpoint.played_options, **given_flags(words, OPTIONS)})
    check_playable(config, checkpoint)
    environment = evaluation_options(config.environment)
    best = max(play(config, environment, checkpoint), key=lambda result: result.return_)
    pictures = show_best_part(environment, best, config.test.test_policy)
    for size in SIZES:
        gif = as_gif([Image.fromarray(small(picture, size)) for picture in pictures], FRAMES_PER_SECOND // EVERY)
        if len(gif) <= max_bytes:
            break
    return gif


def play(config: Config, environment: EnvironmentOptions, checkpoint: Checkpoint) -> list[GameResult]:
    """Play whole games in this process."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    layout = make_unroll_layout(config, make_atari)
    network = ActorCritic(config.network, layout, choose_precision(config.run.precision, torch.device("cpu")))
    network.load_saved(checkpoint.content["learner"]["network"])
    actor = Actor(network)
    actor.load(flat_weights(network))
    greedy = config.test.test_policy == "greedy"
    games = ParallelGames(series_of(make_atari, environment, greedy), actor, layout)
    for game in range(GAMES):
        games.start(game)
    results: list[GameResult] = []
    while games.running:
        results += games.step()
    return sorted(results)


def series_of(make: MakeWatchedEnvironment, environment: EnvironmentOptions, greedy: bool) -> GameSeries:
    return GameSeries(make_environment=make, environment=environment, seed=(1,), slots=32, greedy=greedy, logged=GAMES)


def show_best_part(environment: EnvironmentOptions, result: GameResult, policy: str) -> list[Picture]:
    """Every third picture of the best part of a game."""
    scores: list[float] = []

    def make_watched(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
        def note(screen: Picture, score: float) -> None:
            scores.append(score)
            if watch is not None:
                watch(screen, score)

        return make_atari(options, seed, note)

    game = LoggedGame(series_of(make_watched, environment, policy == "greedy"), result)
    for _ in Replay(game).pictures():
        pass
    begin = best_part(scores, SECONDS * FRAMES_PER_SECOND)
    wanted = range(begin, min(begin + SECONDS * FRAMES_PER_SECOND, len(scores)), EVERY)
    return [picture.copy() for frame, picture in enumerate(Replay(game).pictures()) if frame in wanted]


def best_part(scores: Sequence[float], length: int) -> int:
    """The first of the `length` frames in which the score rises most; among equal parts, the middle one."""
    if len(scores) <= length:
        return 0
    gains = np.array(scores[length:]) - np.array(scores[:-length])
    best = np.flatnonzero(gains == gains.max())
    first = best[best - np.arange(len(best)) == best[0]]  # those without a gap between them
    return int(first[len(first) // 2])


def small(picture: Picture, size: tuple[int, int]) -> Picture:
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
