"""Atari games as the agent sees them: preprocessing, scores, lives and FIRE around an `Emulator`."""

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from option_flags import EnvironmentOptions
from wrappers.emulator import FIRE, NO_SCREEN, NOOP, AtariWrapper, Emulator, Frame, Start, Step, check_atari
from wrappers.environment import FinishedGame, Watch, environment_spec
from wrappers.scaling import Scaler
from wrappers.timeline import DelayedTimeline, Turns

MOST_FIRES = 3  # tries to start an episode that does not end at once

# The functions of --reward_clipping_method.
REWARD_CLIPPING: dict[str, Callable[[float], float]] = {
    "none": float,
    "abs_one_sign": lambda reward: float((reward > 0) - (reward < 0)),
    "abs_one_clamp": lambda reward: min(max(reward, -1.0), 1.0),
    # Negative rewards count less than positive ones. Large rewards are squashed.
    "soft_asymmetric": lambda reward: (1.0 if reward >= 0 else 0.3) * (5.0 * math.tanh(reward / 5.0)),
}


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

    def snapshot(self) -> dict[str, Any]:
        finished = [list(game) for game in self._finished]
        inner = self.env.get_wrapper_attr("snapshot")()
        return {"return": self._return, "length": self._length, "finished": finished, "inner": inner}

    def restore(self, state: dict[str, Any]) -> None:
        self._return, self._length = state["return"], state["length"]
        self._finished = [FinishedGame(*game) for game in state["finished"]]
        self.env.get_wrapper_attr("restore")(state["inner"])


class ScreensAndLives(AtariWrapper):
    """What a game in agent steps and one in real time have in common."""

    def __init__(self, env: gymnasium.Env[Frame, int], options: EnvironmentOptions) -> None:
        super().__init__(env)
        self._screen: Callable[[Frame], None] = env.get_wrapper_attr("screen")
        self._count_lives: Callable[[], int] = env.get_wrapper_attr("lives")
        shape: tuple[int, ...] = env.get_wrapper_attr("screen_shape")
        self._second_last, self._last = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        self._scale = Scaler(shape, options.resolution)
        self.observation_space = Box(0, 255, (*options.resolution, *shape[2:]), np.uint8)
        self._period = options.frames_per_step
        self._episodic_life = options.episodic_life
        self._fires = options.fire_on_reset and env.get_wrapper_attr("has_fire")
        self._lives = 0
        self._goes_on = False  # the episode ended with a life, and the game goes on


class AtariGame(ScreensAndLives):
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

    def __init__(self, env: gymnasium.Env[Frame, int], options: EnvironmentOptions) -> None:
        super().__init__(env, options)
        self._frames_left: Callable[[], int] = env.get_wrapper_attr("frames_left")
        self._fires_again = self._fires and options.fire_on_life_loss and not options.episodic_life
        self._clip = REWARD_CLIPPING[options.reward_clipping_method]
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
        goes_on = self._goes_on and seed is None
        if goes_on:
            _, terminated, truncated = self._repeat(NOOP)
            goes_on = not (terminated or truncated)
        if not goes_on:
            self.env.reset(seed=seed)
            self.timeline.begin()
            self._screen(self._last)
        self._goes_on = False
        self._lives = self._count_lives()

    def step(self, action: int) -> Step:
        reward, terminated, truncated = self._step(action)
        return self._scale(self._last), self._clip(reward), terminated, truncated, {}

    def _step(self, action: int) -> tuple[float, bool, bool]:
        """An agent step, with what follows a lost life: the reward, and whether the episode was terminated or cut."""
        reward, terminated, truncated = self._repeat(action)
        before, self._lives = self._lives, self._count_lives()
        self._goes_on = False
        if 0 < self._lives < before:
            if self._episodic_life:
                self._goes_on = not (terminated or truncated)  # otherwise the next reset starts a new game
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
        last = min(self._period, self._frames_left())
        total, random = 0.0, self.np_random
        self.timeline.decide(action)
        for frame in range(1, self._period + 1):
            _, reward, terminated, truncated, _ = self.env.step(self.timeline.next_action(random))
            gained = float(reward)
            self.timeline.played(gained)
            total += gained
            if terminated or truncated:
                break
            if frame == last - 1:
                self._screen(self._second_last)
        self._screen(self._last)
        if frame == last > 1:
            np.maximum(self._last, self._second_last, out=self._last)
        return total, terminated, truncated

    def snapshot(self) -> dict[str, Any]:
        """The complete state of the game, in plain values and bytes."""
        inner = self.env.get_wrapper_attr("snapshot")()
        return {"lives": self._lives, "goes_on": self._goes_on, "timeline": self.timeline.state(), "inner": inner}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly where the snapshot was taken, in an environment with the same options and any seed."""
        self._lives, self._goes_on = state["lives"], state["goes_on"]
        self.timeline.restore(state["timeline"])
        self.env.get_wrapper_attr("restore")(state["inner"])


class RealtimeGame(ScreensAndLives):
    """A game in real time. Each step is one raw frame and returns an empty array; `look` returns the newest frame.

    This is the maximum of the last two screens, scaled. The observation space is that of such frames.

    In games whose action 1 is FIRE, with `fire_on_reset`, the first `skipped_frames` frames of a game play FIRE,
    whatever the action of the step is. After a lost life, as many frames play NOOP first, then FIRE; this needs
    `episodic_life` or `fire_on_life_loss`. Each is one raw frame like any other, because the game does not wait. The
    info of such a step has the action as `pressed`.

    With `episodic_life`, a lost life ends the episode of the learner, and the next `reset` without a seed only goes on
    with the game. As in `AtariGame`, a life counter that falls to 0 does not count.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], options: EnvironmentOptions) -> None:
        super().__init__(env, options)
        self._fires_again = self._fires and (options.episodic_life or options.fire_on_life_loss)
        self._both = np.empty_like(self._last)
        self._pressed: deque[int] = deque()  # the actions of the next frames, whatever is chosen

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        if self._goes_on and seed is None:
            self._goes_on = False
            return NO_SCREEN, {}
        self._goes_on = False
        _, info = self.env.reset(seed=seed, options=options)
        self._screen(self._last)
        self._second_last[:] = self._last
        self._lives = self._count_lives()
        self._pressed = deque([FIRE] * self._period if self._fires else [])
        return NO_SCREEN, info

    def step(self, action: int) -> Step:
        pressed = self._pressed.popleft() if self._pressed else None
        _, reward, terminated, truncated, info = self.env.step(action if pressed is None else pressed)
        if pressed is not None:
            info = {**info, "pressed": pressed}
        self._second_last, self._last = self._last, self._second_last
        self._screen(self._last)
        lives = self._count_lives()
        life_lost = 0 < lives < self._lives
        self._lives = lives
        if life_lost and self._fires_again:
            self._pressed = deque([NOOP] * self._period + [FIRE] * self._period)
        ends_episode = life_lost and self._episodic_life
        self._goes_on = ends_episode and not (terminated or truncated)
        return NO_SCREEN, float(reward), terminated or ends_episode, truncated, info

    def look(self) -> Frame:
        """The newest frame, [height, width] or [height, width, 3]. The next call overwrites it."""
        np.maximum(self._second_last, self._last, out=self._both)
        return self._scale(self._both)
