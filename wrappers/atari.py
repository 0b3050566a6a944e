"""Atari's preprocessing: `make_atari` shows the order of its steps, which follow as one class each."""

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from option_flags import EnvironmentOptions
from wrappers.delayed_actions import DelayedActions
from wrappers.emulator import FIRE, NOOP, AtariWrapper, Emulator, Frame, Start, Step, atari_games, check_atari
from wrappers.environment import FinishedGame, Watch
from wrappers.films import FilmFrames
from wrappers.realtime_game import RealtimeGame
from wrappers.scaling import Scaler

MOST_FIRES = 3  # tries to start an episode that does not end at once


def make_atari(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Frame, int]:
    """Make the game of `options.env` with all wrappers, in the order of the lines below, innermost first.

    Observations are the newest frame, uint8 [height, width] or [height, width, 3]; the next step overwrites it. A game
    in real time has its own wrapper in place of those that step the game or its observations: see `RealtimeGame`.
    In addition to gymnasium's interface there are `snapshot` and `restore`, and `get_wrapper_attr` finds
    `action_meanings` and `take_finished_games`. `watch` is called with every raw frame, in colour.
    """
    check_atari(options)
    emulator = Emulator(
        atari_games()[options.env],
        seed,
        grayscale=options.grayscaling_frames,
        max_game_frames=options.max_game_frames,
        full_action_space=options.full_action_space,
    )
    env: gymnasium.Env[Frame, int] = emulator
    if watch is not None:
        env = FilmFrames(env, watch)
    if options.repeat_action_probability > 0:
        env = StickyActions(env, options.repeat_action_probability)
    if options.noop_threshold > 0:
        env = NoopStart(env, options.noop_threshold)
    if options.interaction == "realtime":
        return RealtimeGame(ScoreKeeper(env, options.skipped_frames), options)
    if options.interaction != "turns":
        env = DelayedActions(env, options)
    env = FrameSkip(env, options.frames_per_step)
    if options.resolution != emulator.screen_shape[:2]:
        env = Resize(env, options.resolution)
    env = ScoreKeeper(env)
    if options.episodic_life:
        env = EpisodicLife(env)
    if emulator.has_fire and options.fire_on_reset:
        if options.fire_on_life_loss and not options.episodic_life:
            env = FireOnLifeLoss(env)
        env = FireOnReset(env)
    if options.reward_clipping_method != "none":
        env = ClipReward(env, options.reward_clipping_method)
    return env


class StickyActions(AtariWrapper):
    """In each raw frame, repeat the previous frame's action with this probability. Before the first frame it is NOOP.

    ALE has this too, but its saved states do not contain the previous action, so a restored game would differ.
    """

    SAVED = ("action",)

    def __init__(self, env: gymnasium.Env[Frame, int], probability: float) -> None:
        super().__init__(env)
        self._probability = probability
        self._action = NOOP

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        self._action = NOOP
        return self.env.reset(seed=seed, options=options)

    def step(self, action: int) -> Step:
        if self.np_random.random() >= self._probability:
            self._action = action
        observation, reward, terminated, truncated, info = self.env.step(self._action)
        return observation, float(reward), terminated, truncated, info


class NoopStart(AtariWrapper):
    """Play a random number of no-op raw frames, 1 to `max_noops`, at the start of each game.

    If the game ends during these frames, it is reset once more, without no-op frames.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], max_noops: int) -> None:
        super().__init__(env)
        self._max_noops = max_noops

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        observation, info = self.env.reset(seed=seed, options=options)
        for _ in range(int(self.np_random.integers(1, self._max_noops, endpoint=True))):
            observation, _, terminated, truncated, info = self.env.step(NOOP)
            if terminated or truncated:
                return self.env.reset(options=options)
        return observation, info


class FrameSkip(AtariWrapper):
    """Repeat each action for `skip` raw frames, or until the game ends, and sum the rewards.

    The observation is the maximum of the last two screens, because some games draw a sprite only in every other frame.
    Only these two screens are copied. That is possible because the number of frames in the step is known in advance,
    unless the game ends during the step. Then the observation is the last screen alone; it is not used to choose an
    action or to bootstrap. With a skip of 1, and after a reset, it is also the last screen alone.

    Observations have the shape of a screen, [height, width] or [height, width, 3]. The next step overwrites them.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], skip: int) -> None:
        super().__init__(env)
        self._skip = skip
        self._screen: Callable[[Frame], None] = env.get_wrapper_attr("screen")
        self._frames_left: Callable[[], int] = env.get_wrapper_attr("frames_left")
        shape: tuple[int, ...] = env.get_wrapper_attr("screen_shape")
        self.observation_space = Box(0, 255, shape, np.uint8)
        self._second_last = np.empty(shape, np.uint8)
        self._last = np.empty(shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        _, info = self.env.reset(seed=seed, options=options)
        self._screen(self._last)
        return self._last, info

    def step(self, action: int) -> Step:
        last = min(self._skip, self._frames_left())
        total = 0.0
        for frame in range(1, self._skip + 1):
            _, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
            if frame == last - 1:
                self._screen(self._second_last)
        self._screen(self._last)
        if frame == last > 1:
            np.maximum(self._last, self._second_last, out=self._last)
        return self._last, total, terminated, truncated, info


class Resize(AtariWrapper):
    """Scale the observations of an environment to `resolution`. The next step overwrites the observation."""

    def __init__(self, env: gymnasium.Env[Frame, int], resolution: tuple[int, int]) -> None:
        super().__init__(env)
        shape = env.observation_space.shape
        assert shape is not None
        self._scale = Scaler(shape, resolution)
        self.observation_space = Box(0, 255, (*resolution, *shape[2:]), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        screen, info = self.env.reset(seed=seed, options=options)
        return self._scale(screen), info

    def step(self, action: int) -> Step:
        screen, reward, terminated, truncated, info = self.env.step(action)
        return self._scale(screen), float(reward), terminated, truncated, info


class ScoreKeeper(AtariWrapper):
    """Sum the rewards and agent steps of each game, including the steps that outer wrappers make during a reset.

    It is inside EpisodicLife and ClipReward, so it counts complete games and unclipped rewards. The no-op frames of a
    random start are before the first agent step and do not count: the agent has no influence on them. Published scores
    leave them out too (dqn_zoo, OpenAI Baselines). A game that is reset before its end is dropped.

    In a game that is played frame by frame, `frames_per_step` frames count as one agent step.
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


class EpisodicLife(AtariWrapper):
    """End the learner's episode when a life is lost. The next reset continues the game with one no-op agent step.

    A life counter that falls to 0 does not end the episode: in some games the last life is still being played, and in
    others the game ends some frames later, so that ending the episode here would split it into two.
    A life that is lost in the step of the time limit ends the episode as any other: the state after it has no value.
    """

    SAVED = ("lives", "life_lost")

    def __init__(self, env: gymnasium.Env[Frame, int]) -> None:
        super().__init__(env)
        self._count_lives: Callable[[], int] = env.get_wrapper_attr("lives")
        self._lives = 0
        self._life_lost = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        """Continue the game if a life was just lost. Otherwise, and always with a seed, start a new game."""
        if self._life_lost and seed is None:
            observation, _, terminated, truncated, info = self.env.step(NOOP)
            if terminated or truncated:
                observation, info = self.env.reset(options=options)
        else:
            observation, info = self.env.reset(seed=seed, options=options)
        self._life_lost = False
        self._lives = self._count_lives()
        return observation, info

    def step(self, action: int) -> Step:
        observation, reward, terminated, truncated, info = self.env.step(action)
        lives = self._count_lives()
        life_lost = 0 < lives < self._lives
        self._life_lost = life_lost and not (terminated or truncated)  # otherwise the next reset starts a new game
        self._lives = lives
        return observation, float(reward), terminated or life_lost, truncated, info


class FireOnReset(AtariWrapper):
    """After each reset, make one agent step with FIRE.

    For all games whose action 1 is FIRE, whether they wait for it (Breakout) or not (SpaceInvaders). If the episode
    ends at this step, reset and try again, at most three times. After that, the environment stays as the last reset
    left it.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        observation, info = self.env.reset(seed=seed, options=options)
        for _ in range(MOST_FIRES):
            observation, _, terminated, truncated, info = self.env.step(FIRE)
            if not (terminated or truncated):
                break
            observation, info = self.env.reset(options=options)
        return observation, info


class FireOnLifeLoss(AtariWrapper):
    """Extend the step that loses a life by one no-op agent step and one agent step with FIRE.

    For environments in which a lost life does not end the episode, and all games whose action 1 is FIRE. `EpisodicLife`
    and `FireOnReset` make the same two steps in training, so the policy has not learned to make them itself. As in
    `EpisodicLife`, a life counter that falls to 0 does not count.
    """

    SAVED = ("lives",)

    def __init__(self, env: gymnasium.Env[Frame, int]) -> None:
        super().__init__(env)
        self._count_lives: Callable[[], int] = env.get_wrapper_attr("lives")
        self._lives = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        observation, info = self.env.reset(seed=seed, options=options)
        self._lives = self._count_lives()
        return observation, info

    def step(self, action: int) -> Step:
        observation, reward, terminated, truncated, info = self.env.step(action)
        total = float(reward)
        if 0 < self._count_lives() < self._lives:
            for press in (NOOP, FIRE):
                if terminated or truncated:
                    break
                observation, reward, terminated, truncated, info = self.env.step(press)
                total += float(reward)
        self._lives = self._count_lives()
        return observation, total, terminated, truncated, info


class ClipReward(AtariWrapper):
    """Clip the reward of each step with the method of the given name."""

    def __init__(self, env: gymnasium.Env[Frame, int], method: str) -> None:
        super().__init__(env)
        self._clip = reward_clipping(method)

    def step(self, action: int) -> Step:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, self._clip(float(reward)), terminated, truncated, info


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
