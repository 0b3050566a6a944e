"""A game that was played is shown again, exactly, from the log of its actions: into a film, or to any who watches."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

import gymnasium
import numpy as np

from evaluation.film import FRAMES_PER_SECOND, Film, Picture, Scene
from evaluation.parallel_games import GameResult, game_streams
from machine.system_settings import lower_priority, use_one_thread
from option_flags import EnvironmentOptions
from reports.human_scores import game_name
from run_files.run_folder import write_atomically
from workers.messages import Kind, receive, send
from wrappers.environment_types import MakeWatchedEnvironment


@dataclass(frozen=True, kw_only=True)
class Showing:
    """One game, to be shown again."""

    make_environment: MakeWatchedEnvironment
    environment: EnvironmentOptions
    seed: tuple[int, ...]
    result: GameResult
    policy: str

    def run_through(self, show: Callable[[Picture], None]) -> None:
        """Show every raw frame of the game, from those before its first step on."""
        log = self.result.log
        assert log is not None
        scene = Scene(game_name(self.environment.env), f"game {self.result.game}, {self.policy} policy")
        frames = steps = 0
        action, value = "-", "-"

        def watch(screen: Picture, score: float) -> None:
            nonlocal frames
            minutes, seconds = divmod(frames // FRAMES_PER_SECOND, 60)
            rows = {"score": f"{score:,.0f}", "action": action, "value": value, "step": f"{steps:,}"}
            show(scene.draw(screen, {**rows, "time": f"{minutes}:{seconds:02}"}))
            frames += 1

        environment = self.make_environment(self.environment, 0, watch)
        names = action_names(environment)
        environment.reset(seed=game_streams(self.seed, self.result.game)[0])
        for index, estimate in zip(log.actions.tolist(), log.values.tolist(), strict=True):
            steps, action, value = steps + 1, names[index], f"{estimate:.2f}"
            environment.step(index)
        environment.close()


@dataclass(frozen=True, kw_only=True)
class Recorder:
    """A process that makes the film of the game that it is sent; says how many frames it has, or why there is none."""

    path: Path
    low_priority: bool

    def run(self, connection: Connection) -> None:
        if self.low_priority:
            lower_priority()
        use_one_thread()
        showing: Showing = receive(connection).payload
        try:
            send(connection, Kind.RESULT, payload=record(showing, self.path))
        except OSError as error:
            send(connection, Kind.RESULT, payload=error.strerror or str(error))


def record(showing: Showing, path: Path) -> int:
    """Write the film of a game, whole or not at all; return its frames."""
    frames = 0

    def write(file: BinaryIO) -> None:
        nonlocal frames
        with Film(file) as film:
            showing.run_through(film.add)
            frames = film.frames

    write_atomically(path, write)
    return frames


def action_names(environment: gymnasium.Env[Any, Any]) -> list[str]:
    """What the actions are called; their numbers in a game that has no names for them."""
    try:
        return list(environment.get_wrapper_attr("action_meanings"))
    except AttributeError:
        assert isinstance(environment.action_space, gymnasium.spaces.Discrete)
        return [str(index) for index in np.arange(environment.action_space.n)]
