"""Catch: a small game with pictures that is learned within seconds."""

import json
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from option_flags import EnvironmentOptions
from wrappers.any_environment.pictures import colour_picture
from wrappers.atari import ScoreKeeper
from wrappers.environment import Watch, environment_spec
from wrappers.timeline import DelayedTimeline

CELLS = 6  # the board's width and height
CELL = 6  # pixels

Picture = NDArray[np.uint8]


class Catch(gymnasium.Env[Picture, int]):
    """A ball falls one cell per step in a random column. The paddle in the bottom row moves left, stays or moves right.

    The game ends after CELLS − 1 steps, with the reward +1 if the paddle catches the ball and −1 if not.
    """

    def __init__(self, seed: int) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 255, (CELLS * CELL, CELLS * CELL), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(3)  # type: ignore[assignment]
        super().reset(seed=seed)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Picture, dict[str, Any]]:
        super().reset(seed=seed)
        self._row, self._column = 0, int(self.np_random.integers(CELLS))
        self._paddle = CELLS // 2
        return self._picture(), {}

    def step(self, action: int) -> tuple[Picture, float, bool, bool, dict[str, Any]]:
        self._paddle = min(max(self._paddle + action - 1, 0), CELLS - 1)
        self._row += 1
        landed = self._row == CELLS - 1
        reward = (1.0 if self._column == self._paddle else -1.0) if landed else 0.0
        return self._picture(), reward, landed, False, {}

    def lives(self) -> int:
        return 0

    def render(self) -> Picture:
        return self._picture()[..., None].repeat(3, -1)

    def snapshot(self) -> dict[str, Any]:
        rng = json.dumps(self.np_random.bit_generator.state)
        return {"row": self._row, "column": self._column, "paddle": self._paddle, "rng": rng}

    def restore(self, state: dict[str, Any]) -> None:
        self._row, self._column, self._paddle = state["row"], state["column"], state["paddle"]
        self.np_random.bit_generator.state = json.loads(state["rng"])

    def _picture(self) -> Picture:
        board = np.zeros((CELLS, CELLS), np.uint8)
        board[-1, self._paddle] = 128
        board[self._row, self._column] = 255
        return board.repeat(CELL, 0).repeat(CELL, 1)


class FilmFrames(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Call `watch` with a picture after every step and every reset, and the score so far."""

    def __init__(self, env: gymnasium.Env[Any, Any], watch: Watch) -> None:
        super().__init__(env)
        self._watch = watch
        self._score = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        result = self.env.reset(seed=seed, options=options)
        self._score = 0.0
        self._watch(colour_picture(self.env.render()), self._score)
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        self._score += float(result[1])
        self._watch(colour_picture(self.env.render()), self._score)
        return result


class Repeat(gymnasium.Wrapper[Picture, int, Picture, int]):
    """Several frames of the game in each step."""

    def __init__(self, env: gymnasium.Env[Picture, int], options: EnvironmentOptions) -> None:
        super().__init__(env)
        self._frames = options.frames_per_step
        self.timeline = DelayedTimeline(environment_spec(env), options, lambda: 0)

    def reset(self, **arguments: Any) -> tuple[Picture, dict[str, Any]]:
        self.timeline.begin()
        return self.env.reset(**arguments)

    def step(self, action: int) -> tuple[Picture, float, bool, bool, dict[str, Any]]:
        total = 0.0
        self.timeline.decide(action)
        for _ in range(self._frames):
            chosen = self.timeline.next_action(self.np_random)
            picture, reward, terminated, truncated, info = self.env.step(chosen)
            self.timeline.played(float(reward))
            total += float(reward)
            if terminated or truncated:
                break
        return picture, total, terminated, truncated, info

    def snapshot(self) -> dict[str, Any]:
        return {"timeline": self.timeline.state(), "game": self.env.get_wrapper_attr("snapshot")()}

    def restore(self, state: dict[str, Any]) -> None:
        self.timeline.restore(state["timeline"])
        self.env.get_wrapper_attr("restore")(state["game"])


def make_catch(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
    game: gymnasium.Env[Picture, int] = Catch(seed)
    if watch is not None:
        game = FilmFrames(game, watch)
    if options.interaction != "turns":
        game = Repeat(game, options)
    return ScoreKeeper(game)
