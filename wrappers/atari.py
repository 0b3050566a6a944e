"""Atari games as the agent sees them: preprocessing, scores, lives and FIRE around an `Emulator`."""

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from option_flags import EnvironmentOptions
from wrappers.emulator import FIRE, NOOP, AtariWrapper, Emulator, Frame, Start, Step, check_atari
from wrappers.environment import FinishedGame, Watch, environment_spec
from wrappers.realtime_game import RealtimeGame
from wrappers.scaling import Scaler
from wrappers.timeline import DelayedTimeline, Turns

MOST_FIRES = 3  # tries to start an episode that does not end at once


def make_atari(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Frame, int]:
    """Make the game of `options.env`.

    Observations are the newest frame, uint8 [height, width] or [height, width, 3]; the next step overwrites it.
    In addition to gymnasium's interface there are `snapshot` and `restore`, and `get_wrapper_attr` finds
    `action_meanings` and `take_finished_games`. `watch` is called with every raw frame, in colour.
    """
    check_atari(options)
    frames = ScoreKeeper(Emulator(options, seed, watch), options.frames_per_step)
    return RealtimeGame(frames, options) if options.in_real_time else AtariGame(frames, options)


class ScoreKeeper(AtariWrapper):
    """Sum the rewards and count the agent steps of each game, of `frames_per_step` raw frames each.

    Rewards are unclipped, and steps that `AtariGame` makes during a reset count too. The no-op frames of a random start
    are before the first agent step and do not count: the agent has no influence on them. Published scores leave them
    out too (dqn_zoo, OpenAI Baselines). A game that is reset before its end is dropped.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], frames_per_step: int = 1) -> None:
        super().__init__(env)
        self._frames_per_step = frames_per_step
        self._return = 0.0
        self._length = 0
        self._finished: list[FinishedGame] = []

    def take_finished_games(self) -> list[FinishedGame]:
        """The games that ended since the last call, oldest first."""
        finished, self._finished = self._finished, []
        return finished

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        self._return, self._length = 0.0, 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: int) -> Step:
        observation, reward, terminated, truncated, info = self.env.step(action)
        reward = float(reward)
        self._return += reward
        self._length += 1
        if terminated or truncated:
            self._finished.append(FinishedGame(self._return, -(-self._length // self._frames_per_step)))
        return observation, reward, terminated, truncated, info

    def own_state(self) -> dict[str, Any]:
        return {"return": self._return, "length": self._length, "finished": [list(game) for game in self._finished]}

    def set_own_state(self, state: dict[str, Any]) -> None:
        self._return, self._length = state["return"], state["length"]
        self._finished = [FinishedGame(*game) for game in state["finished"]]


class AtariGame(AtariWrapper):
    """A game in agent steps, in the manner of gymnasium's AtariPreprocessing, around single raw frames.

    * **Frame skip**: a step is `frames_per_step` frames, or fewer if the game ends; rewards are summed. Its `timeline`
      says which action each frame plays; where the game waits, it is that of the step.
    * **Observation**: the maximum of the last two screens, because some games draw a sprite only in every other frame,
      then scaled. Where the game ends within a step, it is the last screen alone, because which two screens are copied
      is known in advance; it is not used to choose an action or to bootstrap. So it is after a reset, too.
    * **Lives**, with `episodic_life`: a lost life ends the learner's episode. The next reset continues the game with
      one no-op step. A life counter that falls to 0 does not count: in some games the last life is still being played,
      and in others the game ends some frames later, so that the episode would be split into two. A life that is lost in
      the step of the time limit ends the episode as any other: the state after it has no value.
    * **FIRE**, with `fire_on_reset`: one step with FIRE after each reset, in all games whose action 1 is FIRE, whether
      they wait for it (Breakout) or not (SpaceInvaders). If the episode ends at this step, it is reset and tried again,
      at most three times. With `fire_on_life_loss`, where a lost life does not end the episode, the step that loses it
      is longer by a no-op step and one with FIRE: those that a policy was trained with, so that it never learned to
      make them itself.
    * **Rewards** are clipped for the learner.
    """

    SAVED = ("lives", "life_lost")

    def __init__(self, env: gymnasium.Env[Frame, int], options: EnvironmentOptions) -> None:
        super().__init__(env)
        self._screen: Callable[[Frame], None] = env.get_wrapper_attr("screen")
        self._frames_left: Callable[[], int] = env.get_wrapper_attr("frames_left")
        self._count_lives: Callable[[], int] = env.get_wrapper_attr("lives")
        self._skip = options.frames_per_step
        shape: tuple[int, ...] = env.get_wrapper_attr("screen_shape")
        self._second_last, self._last = np.empty(shape, np.uint8), np.empty(shape, np.uint8)
        self._scale = Scaler(shape, options.resolution)
        self.observation_space = Box(0, 255, (*options.resolution, *shape[2:]), np.uint8)
        self._episodic_life = options.episodic_life
        self._fires = options.fire_on_reset and env.get_wrapper_attr("has_fire")
        self._fires_again = self._fires and options.fire_on_life_loss and not options.episodic_life
        self._clip = reward_clipping(options.reward_clipping_method)
        self._lives = 0
        self._life_lost = False  # the episode ended with a life, and the game goes on
        self.timeline: Turns | DelayedTimeline = Turns()
        if options.has_delay:
            self.timeline = DelayedTimeline(environment_spec(self), options, self._count_lives)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        """Continue the game if a life was just lost. Otherwise, and always with a seed, start a new game."""
        self._begin_episode(seed)
        for _ in range(MOST_FIRES if self._fires else 0):
            _, terminated, truncated = self._step(FIRE)
            if not (terminated or truncated):
                break
            self._begin_episode(None)
        return self._scale(self._last), {}

    def _begin_episode(self, seed: int | None) -> None:
        goes_on = self._life_lost and seed is None
        if goes_on:
            _, terminated, truncated = self._repeat(NOOP)
            goes_on = not (terminated or truncated)
        if not goes_on:
            self.env.reset(seed=seed)
            self.timeline.begin()
            self._screen(self._last)
        self._life_lost = False
        self._lives = self._count_lives()

    def step(self, action: int) -> Step:
        reward, terminated, truncated = self._step(action)
        return self._scale(self._last), self._clip(reward), terminated, truncated, {}

    def _step(self, action: int) -> tuple[float, bool, bool]:
        """An agent step, with what follows a lost life: the reward, and whether the episode was terminated or cut."""
        reward, terminated, truncated = self._repeat(action)
        before, self._lives = self._lives, self._count_lives()
        self._life_lost = False
        if 0 < self._lives < before:
            if self._episodic_life:
                self._life_lost = not (terminated or truncated)  # otherwise the next reset starts a new game
                terminated = True
            elif self._fires_again:
                for press in (NOOP, FIRE):
                    if not (terminated or truncated):
                        more, terminated, truncated = self._repeat(press)
                        reward += more
                self._lives = self._count_lives()
        return reward, terminated, truncated

    def _repeat(self, action: int) -> tuple[float, bool, bool]:
        """Play the frames of one agent step, and copy its last screens."""
        last = min(self._skip, self._frames_left())
        total, random = 0.0, self.np_random
        self.timeline.decide(action)
        for frame in range(1, self._skip + 1):
            _, reward, terminated, truncated, _ = self.env.step(self.timeline.next_action(random))
            self.timeline.played(float(reward))
            total += float(reward)
            if terminated or truncated:
                break
            if frame == last - 1:
                self._screen(self._second_last)
        self._screen(self._last)
        if frame == last > 1:
            np.maximum(self._last, self._second_last, out=self._last)
        return total, terminated, truncated

    def own_state(self) -> dict[str, Any]:
        return {**super().own_state(), "timeline": self.timeline.state()}

    def set_own_state(self, state: dict[str, Any]) -> None:
        super().set_own_state(state)
        self.timeline.restore(state["timeline"])


def reward_clipping(method: str) -> Callable[[float], float]:
    """The function of a `--reward_clipping_method`."""
    return float if method == "none" else _METHODS[method]


def abs_one_sign(reward: float) -> float:
    return float((reward > 0) - (reward < 0))


def abs_one_clamp(reward: float) -> float:
    return min(max(reward, -1.0), 1.0)


def soft_asymmetric(reward: float) -> float:
    """Negative rewards count less than positive ones. Large rewards are squashed."""
    squashed = 5.0 * math.tanh(reward / 5.0)
    return squashed if reward >= 0 else 0.3 * squashed


_METHODS = {clip.__name__: clip for clip in (abs_one_sign, abs_one_clamp, soft_asymmetric)}
