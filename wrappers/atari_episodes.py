"""The outer steps of Atari's preprocessing: scores, lives, the button FIRE, and the clipping of rewards."""

import math
from collections.abc import Callable
from typing import Any

import gymnasium

from wrappers.emulator import FIRE, NOOP, AtariWrapper, Frame, Start, Step
from wrappers.environment import FinishedGame

MOST_FIRES = 3  # tries to start an episode that does not end at once


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
