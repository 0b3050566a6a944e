"""A game in real time: it is played frame by frame, and seen only when someone looks."""

from collections import deque
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from option_flags import EnvironmentOptions
from wrappers.emulator import FIRE, NO_SCREEN, NOOP, AtariWrapper, Frame, Start, Step
from wrappers.scaling import Scaler


class RealtimeGame(AtariWrapper):
    """The outermost wrapper for `--interaction=realtime`. Each step is one raw frame and returns an empty array.

    `look` returns the newest frame: the maximum of the last two screens, scaled. The observation space is that of such
    frames.

    In games whose action 1 is FIRE, with `fire_on_reset`, the first `skipped_frames` frames of a game play FIRE,
    whatever the action of the step is. After a lost life, as many frames play NOOP first, then FIRE; this needs
    `episodic_life` or `fire_on_life_loss`. Each is one raw frame like any other, because the game does not wait. The
    info of such a step has the action as `pressed`.

    With `episodic_life`, a lost life ends the episode of the learner, and the next `reset` without a seed only goes on
    with the game. As in `AtariGame`, a life counter that falls to 0 does not count.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], options: EnvironmentOptions) -> None:
        super().__init__(env)
        self._episodic_life = options.episodic_life
        self._hold = options.skipped_frames
        self._count_lives: Callable[[], int] = env.get_wrapper_attr("lives")
        self._screen: Callable[[Frame], None] = env.get_wrapper_attr("screen")
        self._needs_fire = options.fire_on_reset and env.get_wrapper_attr("has_fire")
        self._fires_again = self._needs_fire and (options.episodic_life or options.fire_on_life_loss)
        shape: tuple[int, ...] = env.get_wrapper_attr("screen_shape")
        self._screens = np.zeros((2, *shape), np.uint8)  # of the last two frames
        self._newest = 0
        self._both = np.empty(shape, np.uint8)
        self._scale = Scaler(shape, options.resolution)
        self.observation_space = Box(0, 255, (*options.resolution, *shape[2:]), np.uint8)
        self._pressed: deque[int] = deque()  # the actions of the next frames, whatever is chosen
        self._lives = 0
        self._goes_on = False  # the episode ended with a life, and the game goes on

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        if self._goes_on and seed is None:
            self._goes_on = False
            return NO_SCREEN, {}
        self._goes_on = False
        _, info = self.env.reset(seed=seed, options=options)
        self._screen(self._screens[0])
        self._screens[1] = self._screens[0]
        self._lives = self._count_lives()
        self._pressed.clear()
        if self._needs_fire:
            self._pressed.extend([FIRE] * self._hold)
        return NO_SCREEN, info

    def step(self, action: int) -> Step:
        pressed = self._pressed.popleft() if self._pressed else None
        _, reward, terminated, truncated, info = self.env.step(action if pressed is None else pressed)
        if pressed is not None:
            info = {**info, "pressed": pressed}
        self._newest ^= 1
        self._screen(self._screens[self._newest])
        lives = self._count_lives()
        life_lost = 0 < lives < self._lives
        self._lives = lives
        if life_lost and self._fires_again:
            self._pressed.clear()
            self._pressed.extend([NOOP] * self._hold + [FIRE] * self._hold)
        ends_episode = life_lost and self._episodic_life
        self._goes_on = ends_episode and not (terminated or truncated)
        return NO_SCREEN, float(reward), terminated or ends_episode, truncated, info

    def look(self) -> Frame:
        """The newest frame, [height, width] or [height, width, 3]. The next call overwrites it."""
        np.maximum(self._screens[0], self._screens[1], out=self._both)
        return self._scale(self._both)
