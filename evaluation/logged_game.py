"""Plays a finished game again from the log of its actions, for a film or a window."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from evaluation.film import Film, Picture, Scene, film_format, score_text
from evaluation.parallel_games import IDLE, GameResult, GameSeries, game_streams
from options.rules import counted
from reports.scores import game_name
from run_files.run_folder import remove_abandoned, write_atomically
from wrappers.environment import FinishedGame, environment_spec
from wrappers.timeline import Played


class FilmOfGame(NamedTuple):
    """The film of a game that was logged, for a process that makes it."""

    series: GameSeries
    result: GameResult
    path: Path

    def make(self, alive: Callable[[], None]) -> list[str]:
        """Write the film atomically, and call `alive` often. Returns what is to be announced."""
        replay = Replay(self.series, self.result)

        def write(file: BinaryIO) -> None:
            with Film(file, replay.format) as film:
                for picture in replay.pictures():
                    film.add(picture)
                    alive()

        alive()
        try:
            self.path.parent.mkdir(exist_ok=True)
            remove_abandoned(self.path.parent)
            write_atomically(self.path, write)
        except OSError as error:
            return [f"{self.path} could not be made: {error.strerror or error}"]
        made = f"video     {self.path}, {replay.frames:,} frames"
        differs = (
            f"the film of game {self.result.game} differs from the game that was scored: the environment does not "
            "repeat a game from its seed"
        )
        return [made] if replay.is_same else [made, differs]


def film_of(series: GameSeries, result: GameResult, folder: Path, name: str) -> FilmOfGame:
    score = score_text(result.return_, thousands="")
    return FilmOfGame(series, result, folder / f"{name}_game{result.game}_return{score}.mp4")


class Replay:
    """A logged game that is played again, with what is written beside its pictures. It is played once."""

    def __init__(self, series: GameSeries, result: GameResult) -> None:
        assert result.log is not None
        self._series, self._result, self._log = series, result, result.log
        self._environment = series.make_environment(series.environment, 0, self._watch)
        self.format = film_format(series.environment.env, self._environment)
        heading = f"game {result.game}, {'greedy' if series.greedy else 'sampled'} policy"
        self._scene = Scene(game_name(series.environment.env), heading, stretched=self.format.stretched)
        spec = environment_spec(self._environment)
        self._names = spec.choice_names if spec.action_kind == "discrete" else []  # other actions are shown as numbers
        self._unit = "step" if self._log.ages is None else "frame"
        self._played = self._source_of_actions()
        self.frames = self._steps = 0
        self._action, self._value = "-", "-"
        self._seen: list[tuple[Picture, dict[str, str]]] = []  # screens that were not drawn yet, and the rows beside
        self.is_same = False  # it was the game that was scored; known after its last picture

    def _source_of_actions(self) -> Callable[[], Played] | None:
        """Tells what a frame plays in a game that does not wait; None for games that wait."""
        log = self._log
        if log.ages is not None:
            ages = [None if age == IDLE else age for age in log.ages.tolist()]
            noop = np.zeros_like(log.actions[0]).tolist()  # what the reset plays
            in_log = [Played(noop, None), *map(Played, log.actions.tolist(), ages)]
            return lambda: in_log[self._steps]
        if self._series.environment.interaction != "turns":
            timeline = self._environment.get_wrapper_attr("timeline")
            return lambda: timeline.playing
        return None

    def pictures(self) -> Iterator[Picture]:
        """A picture of every raw frame, including those before the agent's first step. The next one overwrites it.

        Plays until the game ends, at the latest to the end of the log. It may be another game: an environment need not
        honour its seed.
        """
        log, result, environment = self._log, self._result, self._environment
        take_finished_games: Callable[[], list[FinishedGame]] = environment.get_wrapper_attr("take_finished_games")
        environment.reset(seed=game_streams(self._series.seed, result.game)[0])
        yield from self._drawn()
        take_finished_games()  # drop a game that ended during the reset
        chosen_actions = log.actions.tolist() if log.actions.ndim == 1 else log.actions
        for chosen, estimate in zip(chosen_actions, log.values.tolist(), strict=True):
            self._steps += 1
            self._action, self._value = self._name_of(chosen), "-" if np.isnan(estimate) else f"{estimate:.2f}"
            _, _, terminated, truncated, _ = environment.step(chosen)
            yield from self._drawn()
            if terminated or truncated:
                break
        environment.close()
        returns = [game[0] for game in take_finished_games()]
        # Not the last digits: an environment may sum numbers in another order in another process.
        same_return = bool(returns) and math.isclose(returns[-1], result.return_, rel_tol=1e-6, abs_tol=1e-6)
        self.is_same = same_return and self._steps == len(log.values)

    def _drawn(self) -> Iterator[Picture]:
        for screen, rows in self._seen:
            yield self._scene.draw(screen, rows)
        self._seen.clear()

    def _name_of(self, action: Any) -> str:
        return self._names[action] if self._names else " ".join(f"{number:.2g}" for number in action)

    def _watch(self, screen: Picture, score: float) -> None:
        minutes, seconds = divmod(self.frames // self.format.frames_per_second, 60)
        rows = {"score": score_text(score), "action": self._action, "value": self._value}
        rows |= {self._unit: f"{self._steps:,}", "time": f"{minutes}:{seconds:02}"}
        if self._played is not None:
            played = self._played()
            age = "idle action" if played.age is None else counted(played.age, "frame")
            rows |= {"action": self._name_of(played.action), "age of its screen": age}
        self._seen.append((screen.copy(), rows))
        self.frames += 1
