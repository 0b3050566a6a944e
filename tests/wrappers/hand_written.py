"""Environments written for the tests: every space, and episodes that end where the test says. Also `module:Id` ones."""

import itertools
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from option_flags import Config, EnvironmentOptions
from wrappers.any_environment.adapter import AnyEnvironment

NEVER = 10**9
TITLE = "\x1b]0;owned\x07"  # a terminal would change the title of its window


class Scripted(gymnasium.Env[Any, Any]):
    """Returns a script of observations and rewards; records what it gets. A game ends where `ends` says."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any] | None = None,
        observations: list[Any] | None = None,
        rewards: list[Any] | None = None,
        ends: Mapping[int, tuple[bool, bool]] | None = None,  # number of a game's step → (terminated, truncated)
    ) -> None:
        self.observation_space = observation_space
        self.action_space = spaces.Discrete(3) if action_space is None else action_space
        observation_space.seed(0)
        self._observations = observations
        self._rewards = rewards or [0.0]
        self._ends = ends or {}
        self.actions: list[Any] = []
        self.seeds: list[int | None] = []
        self._count = 0
        self._game_step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self._game_step = 0
        return self._next(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        self._game_step += 1
        reward = self._rewards[(len(self.actions) - 1) % len(self._rewards)]
        return self._next(), reward, *self._ends.get(self._game_step, (False, False)), {}

    def _next(self) -> Any:
        if self._observations is None:
            return self.observation_space.sample()
        self._count += 1
        return self._observations[(self._count - 1) % len(self._observations)]


class Catch(gymnasium.Env[Any, Any]):
    """A small registered environment; `lanes` is its argument."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, lanes: int = 3, render_mode: str | None = None) -> None:
        if lanes < 1:
            raise ValueError("a lane is needed")
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, lanes, (2,), np.float32)
        self.action_space = spaces.Discrete(lanes)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._seen(), float(action), bool(self.np_random.random() < 0.1), False, {}

    def render(self) -> Any:
        return np.zeros((4, 6, 3), np.uint8)

    def _seen(self) -> Any:
        return self.np_random.random(2).astype(np.float32)


class Channels(Catch):
    """Catch that shows a picture with a bright spot in its first channel."""

    def __init__(self, channels: int, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        self.observation_space = spaces.Box(0, 255, (12, 12, channels), np.uint8)

    def _seen(self) -> Any:
        picture = np.zeros(self.observation_space.shape or (), np.uint8)
        picture[3, 4, 0] = 200
        return picture


class WithoutPictures(Catch):
    metadata = {"render_modes": ["human"]}  # noqa: RUF012

    def render(self) -> Any:
        return "a window"


class Spaceless(Catch):
    """Catch whose action space is missing, or no space."""

    def __init__(self, **spaces: Any) -> None:
        super().__init__()
        del self.action_space
        for name, space in spaces.items():
            setattr(self, name, space)


class WithProgram(Catch):
    """Catch that starts a program, and writes its process id to the file `mark`."""

    metadata = {"render_modes": ["human"]}  # noqa: RUF012

    def __init__(self, mark: str, observes: str = "numbers", render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        if observes == "text":
            self.observation_space = spaces.Text(9)
        self._program = subprocess.Popen(["sleep", "1000"])
        Path(mark).write_text(str(self._program.pid))

    def close(self) -> None:
        self._program.kill()
        self._program.wait()


class Faulty(Catch):
    """Catch that does something wrong in its step number `at`, and in every later one.

    `mark` is a file that it makes before it does so.
    """

    def __init__(self, how: str, at: int, mark: str | None = None) -> None:
        super().__init__()
        if how == "is never made":
            raise ValueError("the constructor fails")
        self._how, self._at, self._mark = how, at, mark
        self._steps = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        if self._steps >= self._at:
            if self._mark is not None:
                Path(self._mark).touch()
            if self._how == "raises":
                raise ValueError(f"nothing works after {self._steps} steps")
            if self._how == "nan":
                return np.array([0, np.nan], np.float32), 0.0, False, False, {}
            if self._how == "sleeps":
                wait_for_a_server_that_never_answers()
            if self._how == "computes":
                sum(itertools.repeat(0))  # never ends, and never looks for signals
        return super().step(action)


class Fragile(Catch):
    """Catch whose resets fail where their number, in this process, is in `fails`, or divisible by `every`."""

    resets = 0
    seeds: ClassVar[list[int | None]] = []

    def __init__(self, fails: Sequence[int] = (), every: int = NEVER) -> None:
        super().__init__()
        self._fails, self._every = fails, every

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        type(self).resets += 1
        self.seeds.append(seed)
        if self.resets in self._fails or self.resets % self._every == 0:
            raise ValueError(f"the server refuses reset {self.resets}")
        return super().reset(seed=seed)


class Wanderer(Catch):
    """Catch that changes the current folder."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        os.chdir(folder)


def wait_for_a_server_that_never_answers() -> None:
    while True:
        try:
            time.sleep(1000)
        except Exception:
            continue


gymnasium.register("Collection/Catch-v1", entry_point="tests.wrappers.hand_written:Catch", max_episode_steps=30)
gymnasium.register("Collection/Channels-v1", entry_point="tests.wrappers.hand_written:Channels")
gymnasium.register("Collection/Blind-v1", entry_point="tests.wrappers.hand_written:WithoutPictures")
gymnasium.register("Collection/Missing-v1", entry_point="no_such_module_anywhere:Environment")

gymnasium.register("Collection/Faulty-v1", entry_point="tests.wrappers.hand_written:Faulty")
gymnasium.register("Collection/Fragile-v1", entry_point="tests.wrappers.hand_written:Fragile")
gymnasium.register("Collection/Wanderer-v1", entry_point="tests.wrappers.hand_written:Wanderer")
gymnasium.register("Collection/WithProgram-v1", entry_point="tests.wrappers.hand_written:WithProgram")
gymnasium.register("Spaceless-v0", entry_point="tests.wrappers.hand_written:Spaceless")

CATCH = "tests.wrappers.hand_written:Collection/Catch-v1"
CHANNELS = "tests.wrappers.hand_written:Collection/Channels-v1"
BLIND = "tests.wrappers.hand_written:Collection/Blind-v1"
FAULTY = "tests.wrappers.hand_written:Collection/Faulty-v1"
FRAGILE = "tests.wrappers.hand_written:Collection/Fragile-v1"
WANDERER = "tests.wrappers.hand_written:Collection/Wanderer-v1"
WITH_PROGRAM = "tests.wrappers.hand_written:Collection/WithProgram-v1"
MISSING = "tests.wrappers.hand_written:Collection/Missing-v1"


def doubled(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.TransformReward(env, lambda reward: 2 * float(reward))


class ClosesWhatResetMakes(gymnasium.Wrapper[Any, Any, Any, Any]):
    def reset(self, **more: Any) -> tuple[Any, dict[str, Any]]:
        self.window = "open"
        return self.env.reset(**more)

    def close(self) -> None:
        del self.window


def closed_after_a_game(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    return ClosesWhatResetMakes(env)


def nothing(env: gymnasium.Env[Any, Any]) -> None:
    del env


def broken(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    raise RuntimeError("this wrapper never works")


def options_of(env: str = "CartPole-v1", **flags: Any) -> EnvironmentOptions:
    """The options of an environment, with the defaults of its family."""
    return Config.from_flags({"env": env, **flags}).environment


def adapted(env: gymnasium.Env[Any, Any], seed: int = 0, **flags: Any) -> AnyEnvironment:
    return AnyEnvironment(env, options_of(**flags), seed)
