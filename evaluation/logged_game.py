"""Plays a finished game again from the log of its actions, for a film or a window."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import gymnasium
import numpy as np

from evaluation.film import FRAMES_PER_SECOND, Film, Picture, Scene
from evaluation.parallel_games import IDLE, GameResult, game_streams
from option_flags import EnvironmentOptions
from reports.human_scores import game_name
from run_files.run_folder import write_atomically
from wrappers.delayed_actions import Played
from wrappers.emulator import NOOP
from wrappers.environment_spec import environment_spec
from wrappers.environment_types import MakeWatchedEnvironment


@dataclass(frozen=True, kw_only=True)
class LoggedGame:
    """One finished game with its log, and what is needed to play it again."""

    make_environment: MakeWatchedEnvironment
    environment: EnvironmentOptions
    seed: tuple[int, ...]
    result: GameResult
    policy: str

    def play_back(self, show: Callable[[Picture], None]) -> None:
        """Call `show` with a picture of every raw frame, including the frames before the agent's first step."""
        log = self.result.log
        assert log is not None
        scene = Scene(game_name(self.environment.env), f"game {self.result.game}, {self.policy} policy")
        frames = steps = 0
        action, value = "-", "-"
        played: Callable[[], Played] | None = None

        def watch(screen: Picture, score: float) -> None:
            nonlocal frames
            minutes, seconds = divmod(frames // FRAMES_PER_SECOND, 60)
            rows = {"score": f"{score:,.0f}", "action": action, "value": value, unit: f"{steps:,}"}
            rows["time"] = f"{minutes}:{seconds:02}"
            if played is not None:
                rows |= _played_rows(played(), name_of)
            show(scene.draw(screen, rows))
            frames += 1

        environment = self.make_environment(self.environment, 0, watch)
        name_of = action_namer(environment)
        unit = "step" if log.ages is None else "frame"
        if log.ages is not None:
            ages = [None if age == IDLE else age for age in log.ages.tolist()]
            in_log = [Played(NOOP, None), *map(Played, log.actions.tolist(), ages)]  # the first one is the reset
            played = lambda: in_log[steps]  # noqa: E731
        elif self.environment.interaction != "turns":
            played = environment.get_wrapper_attr("played")
        environment.reset(seed=game_streams(self.seed, self.result.game)[0])
        chosen_actions = log.actions.tolist() if log.actions.ndim == 1 else log.actions
        for chosen, estimate in zip(chosen_actions, log.values.tolist(), strict=True):
            steps, action, value = steps + 1, name_of(chosen), "-" if np.isnan(estimate) else f"{estimate:.2f}"
            environment.step(chosen)
        environment.close()

    def write_film(self, path: Path) -> int:
        """Write the film of the game atomically. Returns its number of frames."""
        frames = 0

        def write(file: BinaryIO) -> None:
            nonlocal frames
            with Film(file) as film:
                self.play_back(film.add)
                frames = film.frames

        write_atomically(path, write)
        return frames


def _played_rows(played: Played, name_of: Callable[[Any], str]) -> dict[str, str]:
    """What a frame plays in a game that does not wait, and the age of the screen that it was chosen from."""
    age = "idle action" if played.age is None else "1 frame" if played.age == 1 else f"{played.age} frames"
    return {"action": name_of(played.action), "age of its screen": age}


def action_names(environment: gymnasium.Env[Any, Any]) -> list[str]:
    """The names of discrete actions, or their numbers if the environment has no names for them; else no names."""
    try:
        return list(environment.get_wrapper_attr("action_meanings"))
    except AttributeError:
        spec = environment_spec(environment)
        return [str(index) for index in range(spec.action_count)] if spec.action_kind == "discrete" else []


def action_namer(environment: gymnasium.Env[Any, Any]) -> Callable[[Any], str]:
    """A function from an action to a short text."""
    names = action_names(environment)
    if names:
        return lambda action: names[action]
    return lambda action: " ".join(f"{number:.2g}" for number in action)
