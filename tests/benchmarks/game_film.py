"""An animation of random play beside the best seconds of an agent, played and drawn by the code for tests and films."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import gymnasium
import numpy as np
import torch
from PIL import Image

from agents.acting import Actor, flat_weights
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from evaluation.film import BACKGROUND, FONT, FRAMES_PER_SECOND, GAME_WIDTH, VALUE, Picture, score_text
from evaluation.logged_game import Replay
from evaluation.parallel_games import GameResult, GameSeries, ParallelGames, evaluation_options
from machine.device import choose_precision
from option_flags import OPTIONS, Config, EnvironmentOptions
from options.command_line import given_flags
from reports.plot import short_count
from run_files.checkpoint import Checkpoint, check_playable, find_checkpoint
from wrappers.atari import make_atari
from wrappers.environment import MakeEnvironment, Watch

GAMES = 8  # the best of them is shown
SECONDS = 12
EVERY = 5  # raw frames: 12 pictures a second. Odd, because games draw some things only on every other frame
SIZES = ((360, 270), (320, 240), (280, 210), (240, 180))  # of each half of the animation, largest first
CAPTION = 26  # pixels
GAP = 8  # pixels between the halves
COLOURS = 64
PALETTE_SAMPLES = 16  # pictures that the palette is chosen from


class Part(NamedTuple):
    """Some seconds of a game: every few pictures of it, and the score at each of them."""

    pictures: list[Picture]
    points: list[float]


def game_gif(run: Path, max_bytes: int) -> bytes:
    """Random play beside the trained agent's best seconds, as large as `max_bytes` allows. Repeatable."""
    checkpoint = find_checkpoint(str(run))
    words = ["--op_mode=test", f"--load_model_url={run}", "--seed=1"]
    config = Config.from_flags({**checkpoint.played_options, **given_flags(words, OPTIONS)})
    check_playable(config, checkpoint)
    trained, begin = show_best_part(config, max(play(config, checkpoint), key=lambda result: result.return_))
    random, _ = show_best_part(config, play(config, checkpoint, random=True)[0], begin)
    titles = "random play", f"after {short_count(checkpoint.agent_steps)} steps"
    for size in SIZES:
        pictures = [
            Image.fromarray(beside(halves, titles, [points for _, points in moments], size))
            for moments in zip(zip(*random, strict=True), zip(*trained, strict=True), strict=False)
            for halves in [[picture for picture, _ in moments]]
        ]
        gif = as_gif(pictures, FRAMES_PER_SECOND / EVERY)
        if len(gif) <= max_bytes:
            break
    return gif


def beside(halves: Sequence[Picture], titles: Sequence[str], points: Sequence[float], size: tuple[int, int]) -> Picture:
    """The screens of both games side by side, with a title and the points above each."""
    columns = []
    for picture, title, score in zip(halves, titles, points, strict=True):
        screen = cv2.resize(picture[:, :GAME_WIDTH], size, interpolation=cv2.INTER_AREA)
        head = np.full((CAPTION, size[0], 3), BACKGROUND, np.uint8)
        cv2.putText(head, f"{title}: {score_text(score)} points", (4, 18), FONT, 0.5, VALUE, 1, cv2.LINE_AA)
        columns.append(np.concatenate([head, screen]))
    gap = np.full((len(columns[0]), GAP, 3), BACKGROUND, np.uint8)
    return np.asarray(np.concatenate([columns[0], gap, columns[1]], axis=1), np.uint8)


def play(config: Config, checkpoint: Checkpoint, *, random: bool = False) -> list[GameResult]:
    """Play whole games in this process, with the policy of the checkpoint, or with actions of equal probability."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    layout = make_unroll_layout(config, make_atari)
    network = ActorCritic(config.network, layout, choose_precision(config.run.precision, torch.device("cpu")))
    network.load_saved(checkpoint.content["learner"]["network"])
    if random:
        for weights in network.policy_head.parameters():
            weights.data.zero_()
    actor = Actor(network)
    actor.load(flat_weights(network))
    games = ParallelGames(series_of(make_atari, config, random=random), actor, layout)
    for game in range(1 if random else GAMES):
        games.start(game)
    results: list[GameResult] = []
    while games.running:
        results += games.step()
    return sorted(results)


def series_of(make: MakeEnvironment, config: Config, *, random: bool = False) -> GameSeries:
    environment, greedy = evaluation_options(config.environment), config.test.test_policy == "greedy" and not random
    return GameSeries(make_environment=make, environment=environment, seed=(1,), slots=32, greedy=greedy, logged=GAMES)


def show_best_part(config: Config, result: GameResult, begin: int | None = None) -> tuple[Part, int]:
    """The best part of a game, or the part from the frame `begin`; and the frame at which it begins."""
    scores: list[float] = []

    def make_watched(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
        def note(screen: Picture, score: float) -> None:
            scores.append(score)
            if watch is not None:
                watch(screen, score)

        return make_atari(options, seed, note)

    series = series_of(make_watched, config)
    if begin is None:
        for _ in Replay(series, result).pictures():
            pass
        begin = best_part(scores, SECONDS * FRAMES_PER_SECOND)
        scores.clear()
    wanted = range(begin, begin + SECONDS * FRAMES_PER_SECOND, EVERY)
    part = Part([], [])
    for frame, picture in enumerate(Replay(series, result).pictures()):
        if frame in wanted:
            part.pictures.append(picture.copy())
            part.points.append(scores[frame])
    return part, begin


def best_part(scores: Sequence[float], length: int) -> int:
    """The first of the `length` frames in which the score rises most; among equal parts, the middle one."""
    if len(scores) <= length:
        return 0
    gains = np.array(scores[length:]) - np.array(scores[:-length])
    best = np.flatnonzero(gains == gains.max())
    first = best[best - np.arange(len(best)) == best[0]]  # those without a gap between them
    return int(first[len(first) // 2])


def as_gif(pictures: Sequence[Image.Image], rate: float) -> bytes:
    """An endless GIF at `rate` pictures a second; one palette for all, so that unchanged pixels take no bytes."""
    samples = pictures[:: -(-len(pictures) // PALETTE_SAMPLES)]
    width, height = pictures[0].size
    stacked = Image.new("RGB", (width, height * len(samples)))
    for place, sample in enumerate(samples):
        stacked.paste(sample, (0, height * place))
    palette = stacked.quantize(COLOURS)
    few = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    buffer = BytesIO()
    few[0].save(buffer, "GIF", save_all=True, append_images=few[1:], duration=round(1000 / rate), loop=0)
    return buffer.getvalue()
