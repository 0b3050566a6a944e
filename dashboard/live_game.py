"""A process of the lowest priority in which the agent plays in real time, for as long as somebody looks."""

import math
import os
import secrets
import time
from collections import deque
from copy import deepcopy
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import Actor, flat_weights
from agents.network import ActorCritic
from agents.spaces import check_spaces, make_unroll_layout
from dashboard.children import LivePicture
from dashboard.saliency import overlay, saliency
from evaluation.film import film_format
from evaluation.parallel_games import GameSeries, ParallelGames, evaluation_options
from machine.device import choose_precision
from machine.system_settings import use_one_thread
from option_flags import Config
from options.presets import is_noframeskip
from options.rules import UsageError
from processes.messages import Kind, receive, send
from run_files.checkpoint import Checkpoint, InvalidCheckpointError, read_checkpoint
from run_files.run_folder import CHECKPOINTS, newest_first
from workers.policy_inputs import as_batch
from wrappers.make_environment import make_environment

GRAY_OR_RGB = (1, 3)  # channels of a picture
LOOK_SECONDS = 3.0  # between two looks for a newer checkpoint
PICTURE_SECONDS = 1 / 15  # most games make 15 agent steps in a second
SALIENCY_SECONDS = 0.6  # it takes many forward passes
CPU = torch.device("cpu")


def play_live(connection: Connection, folder: Path, root: Path, chosen: str | None) -> None:
    """Send pictures until the connection is closed. Who does not receive them makes the game wait. See `GamePlayer`."""
    use_one_thread()
    try:
        player = GamePlayer(folder, root, chosen, secrets.randbelow(2**31))
        os.nice(19)  # only now: on a busy machine, the start would take minutes
        saliency_wanted, pictured, salient, looked = False, -math.inf, -math.inf, time.monotonic()
        due = time.monotonic()
        while True:
            now = time.monotonic()
            if now - pictured >= PICTURE_SECONDS - 0.001:
                with_saliency = saliency_wanted and now - salient > SALIENCY_SECONDS
                send(connection, Kind.PICTURE, payload=player.picture(with_saliency))
                pictured, salient = now, now if with_saliency else salient
            if now - looked > LOOK_SECONDS:
                player.follow()
                looked = now
            # After a delay, the game goes on at its usual speed; it does not catch up.
            due = max(due + player.seconds_per_step, time.monotonic())
            while connection.poll(max(0.0, due - time.monotonic())):
                saliency_wanted = bool(receive(connection).index)
            player.step()
    except (InvalidCheckpointError, UsageError) as error:
        send(connection, Kind.PICTURE, payload=str(error))


class GamePlayer:
    """Plays one game after another, step by step, with the network of a checkpoint.

    It is the newest one in the `folder` of a run, or the one with the file name `chosen`. A checkpoint that a link
    leads to outside of the results folder `root` is not played.
    """

    def __init__(self, folder: Path, root: Path, chosen: str | None, seed: int) -> None:
        self._folder = folder / CHECKPOINTS
        self._root = root
        self._chosen_file = chosen
        if (path := self._newest()) is None:
            raise InvalidCheckpointError("There is no checkpoint to play.")
        checkpoint = _read(path)
        config = Config.from_flags({**checkpoint.played_options, "op_mode": "test", "load_model_url": str(path)})
        options = evaluation_options(config.environment)
        if options.in_real_time:  # here the game waits for the agent
            options = replace(options, interaction="turns")
        self._layout = make_unroll_layout(replace(config, environment=options), make_environment)
        self._network = ActorCritic(config.network, self._layout, choose_precision(config.run.precision, CPU))
        self._actor = Actor(deepcopy(self._network))  # which may round its weights
        self._take_weights(checkpoint)
        # Of an Atari game, which may draw a thing in every other frame, the last two; of others, the last one.
        self._screens: deque[NDArray[np.uint8]] = deque(maxlen=2 if is_noframeskip(options.env) else 1)
        environment = make_environment(options, 0, self._watch)
        # One for each of the numbers that `as_bars` of a distribution gives.
        self._names = *self._layout.choice_names, *(f"action {name}" for name in self._layout.number_names)
        frames_per_second = film_format(options.env, environment).frames_per_second
        self.seconds_per_step = options.frames_per_step / float(frames_per_second)
        series = GameSeries(make_environment=lambda *_: environment, environment=options, seed=(seed,))
        self._games = ParallelGames(series, self._actor, self._layout)
        self._scores: deque[float] = deque(maxlen=10)
        self._values: list[tuple[float, float]] = []
        self._score = 0.0
        self._played, self._steps, self._number = 0, 0, 0
        self.step()

    def _newest(self) -> Path | None:
        chosen = self._chosen_file
        candidates = newest_first(self._folder) if chosen is None else [self._folder / chosen]
        return next((path for path in candidates if path.resolve().is_relative_to(self._root)), None)

    def _take_weights(self, checkpoint: Checkpoint) -> None:
        """Act with the weights of this checkpoint from now on. The game goes on."""
        check_spaces(checkpoint.content, self._layout)
        self._network.load_saved(checkpoint.content["learner"]["network"])
        self._actor.load(flat_weights(self._network))
        self._checkpoint = checkpoint

    def follow(self) -> None:
        """Play the newest checkpoint if it is another one."""
        if (newest := self._newest()) is not None and newest != self._checkpoint.path:
            self._take_weights(_read(newest))

    def _watch(self, screen: NDArray[np.uint8], score: float) -> None:
        self._screens.append(screen.copy())
        self._score = score

    def step(self) -> None:
        """One agent step; after the end of a game, the next one begins."""
        if not self._games.running:
            self._steps = 0
            self._screens.clear()
            self._games.start(self._number)
            self._number += 1
        self._steps += 1
        self._scores.extend(result.return_ for result in self._games.step())
        self._values.append((self._played * self.seconds_per_step, float(self._games.decision.values[0])))
        del self._values[:-1000]
        self._played += 1

    @torch.inference_mode()
    def picture(self, with_saliency: bool) -> LivePicture:
        """The game after a step, and the decision that has led there."""
        frames, decision, distribution = self._frames(), self._games.decision, self._actor.distribution
        encoded = distribution.encode(decision.actions[0]).flatten()  # ones at the choices
        values, self._values = tuple(self._values), []
        return LivePicture(
            screen=_png(np.maximum.reduce(list(self._screens))),
            seen=_png(frames[-1]) if frames else None,
            stack=_png(np.concatenate(frames, axis=1)) if frames else None,
            salient=self._salient() if frames and with_saliency else None,
            vector=tuple(self._games.inputs.vectors[0, : self._layout.vector_size].tolist()),
            actions=self._names,
            bars=tuple(distribution.as_bars(decision.logits[0]).tolist()),
            choices=len(self._layout.choice_names),
            chosen=tuple(encoded[: len(self._layout.choice_names)].nonzero().flatten().tolist()),
            values=values,
            score=self._score,
            steps=self._steps,
            scores=tuple(self._scores),
            checkpoint=self._checkpoint.path.name,
            agent_steps=self._checkpoint.agent_steps,
        )

    def _frames(self) -> list[NDArray[np.uint8]]:
        """The frames of the observation as pictures, the oldest first."""
        if not self._layout.has_pictures:
            return []
        channels = self._layout.frame_shape[0]
        stacked = self._games.inputs.observations[0]
        frames = [stacked[..., i : i + channels] for i in range(0, stacked.shape[-1], channels)]
        if channels in GRAY_OR_RGB:
            return frames
        # Other channels are no colours: in MinAtar, each has one kind of things.
        return [frame.max(-1, keepdims=True) for frame in frames]

    def _salient(self) -> bytes:
        picture = self._games.inputs.observations[0]
        height, width = picture.shape[:2]
        return _png(overlay(saliency(self._actor.distribution, picture, self._evaluate), height, width))

    def _evaluate(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and values of other observations at this moment of the game."""
        inputs = self._games.inputs.select([0] * len(observations))
        decision = self._actor.act(as_batch(observations), inputs.state, inputs.uniforms, inputs.vectors)
        return decision.logits.float(), decision.values.float()


def _read(path: Path) -> Checkpoint:
    try:
        return read_checkpoint(path)
    except InvalidCheckpointError as error:
        raise InvalidCheckpointError(f"{path.name} {error}.") from None


def _png(picture: NDArray[np.uint8]) -> bytes:
    """A picture in gray, RGB or RGBA as a PNG file."""
    if picture.shape[-1] == 3:
        picture = picture[..., ::-1]
    elif picture.shape[-1] == 4:
        picture = picture[..., [2, 1, 0, 3]]
    done, encoded = cv2.imencode(".png", np.ascontiguousarray(picture), [cv2.IMWRITE_PNG_COMPRESSION, 3])
    assert done
    return encoded.tobytes()
