"""The wrappers that --op_mode=test adds: FIRE after a lost life, and a function that receives every frame."""

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from option_flags import EnvironmentOptions
from wrappers.atari import FireOnLifeLoss, make_atari

BREAKOUT = EnvironmentOptions(
    env="BreakoutNoFrameskip-v4", episodic_life=False, fire_on_life_loss=True, frame_scale_resolution="210,160"
)


class Lives(gymnasium.Env[NDArray[np.uint8], int]):
    """Each step has reward 1 and sets the lives to the next number of the script; −1 ends the game."""

    def __init__(self, script: list[int]) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 255, (1,), np.uint8)
        self._script = script
        self._lives = 3
        self.pressed: list[int] = []

    def lives(self) -> int:
        return self._lives

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        self._lives = 3
        return np.zeros(1, np.uint8), {}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        self.pressed.append(action)
        self._lives = self._script.pop(0)
        return np.zeros(1, np.uint8), 1.0, self._lives < 0, False, {}


def play(script: list[int], steps: int) -> tuple[list[int], list[float]]:
    game = Lives(script)
    environment = FireOnLifeLoss(game)
    environment.reset()
    rewards = [float(environment.step(7)[1]) for _ in range(steps)]
    return game.pressed, rewards


def test_fire_follows_a_lost_life() -> None:
    assert play([3, 2, 2, 2, 2], 3) == ([7, 7, 0, 1, 7], [1, 3, 1])


def test_fire_does_not_follow_the_end_of_a_game_or_a_counter_that_falls_to_0() -> None:
    assert play([3, 2, -1], 2) == ([7, 7, 0], [1, 2])
    assert play([1, 1, 1, 0, 0], 3) == ([7, 0, 1, 7, 7], [3, 1, 1])


def test_breakout_continues_after_a_lost_life() -> None:
    """Without FIRE the ball never comes back, and nothing happens until the frame limit."""
    for fire, ends in ((True, (True, False)), (False, (False, True))):
        environment = make_atari(replace(BREAKOUT, max_game_frames=4000, fire_on_life_loss=fire), 1)
        environment.reset()
        terminated = truncated = False
        while not (terminated or truncated):
            _, _, terminated, truncated, _ = environment.step(0)
        assert (terminated, truncated) == ends


def test_a_spectator_sees_every_raw_frame_and_changes_nothing() -> None:
    seen: list[tuple[int, float]] = []
    options = replace(BREAKOUT, env="SpaceInvadersNoFrameskip-v4", reward_clipping_method="none")
    watched = make_atari(options, 3, lambda picture, score: seen.append((int(picture.sum()), score)))
    alone = make_atari(options, 3)
    rng = np.random.default_rng(0)
    assert (watched.reset()[0] == alone.reset()[0]).all()
    total = 0.0
    for _ in range(150):
        action = int(rng.integers(4))
        one, other = watched.step(action), alone.step(action)
        assert (one[0] == other[0]).all() and one[1:] == other[1:]
        total += float(one[1])
        if one[2]:
            break
    emulator: Any = watched.unwrapped
    assert len(seen) == emulator.ale.getEpisodeFrameNumber() + 1
    assert seen[-1][1] == total > 0
