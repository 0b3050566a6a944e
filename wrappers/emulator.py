"""One Atari game, a raw frame a step."""

from typing import Any, TypeAlias, cast

import ale_py
import gymnasium
import numpy as np
import numpy.typing as npt
from ale_py import roms
from gymnasium.spaces import Box, Discrete

Frame: TypeAlias = npt.NDArray[np.uint8]
AtariWrapper: TypeAlias = gymnasium.Wrapper[Frame, int, Frame, int]

NOOP = 0  # the place of "do nothing" in every game's minimal action set

# Every screen is drawn only when someone asks for it, so a step has this to show.
_UNSEEN: Frame = np.empty(0, np.uint8)


class Emulator(gymnasium.Env[Frame, int]):
    """ALE itself, without gymnasium's own Atari environment, which would fetch a colour screen at every frame.

    A step is one raw frame and returns an empty array; `screen` copies what is on the screen now. All chance is
    `np_random`, which the wrappers draw from.
    """

    def __init__(self, game: str, seed: int, *, grayscale: bool, max_game_frames: int) -> None:
        self.metadata = {"render_modes": ["rgb_array"]}
        self.render_mode = "rgb_array"
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)  # StickyActions does this, where asked for
        self.ale.setInt("max_num_frames_per_episode", max_game_frames)
        self.ale.setBool("color_averaging", False)
        self.ale.setBool("display_screen", False)
        self.ale.setBool("sound", False)
        # Nothing draws from ALE's own generator but sticky actions; left alone, it would begin with the time of day.
        self.ale.setInt("random_seed", 1)
        self.ale.loadROM(str(roms.get_rom_path(game)))
        self._switched_on = self.ale.cloneState(include_rng=True)
        self._max_game_frames = max_game_frames
        super().reset(seed=seed)

        actions = self.ale.getMinimalActionSet()
        self._actions = [action.value for action in actions]
        self.action_meanings = tuple(action.name for action in actions)
        # gymnasium says that such a space holds numpy integers; plain ones belong to it as well.
        self.action_space = cast(gymnasium.Space[int], Discrete(len(actions)))
        self.observation_space = Box(0, 255, _UNSEEN.shape, np.uint8)
        height, width = self.ale.getScreenDims()
        self.screen_shape: tuple[int, ...] = (height, width) if grayscale else (height, width, 3)
        self._copy_screen = self.ale.getScreenGrayscale if grayscale else self.ale.getScreenRGB

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        """Start a new game; with a seed it is the game that a new emulator made with this seed would start."""
        if seed is not None:
            super().reset(seed=seed)
            # A fifth of the games keep something of the game before over a reset.
            self.ale.restoreState(self._switched_on)
        self.ale.reset_game()
        return _UNSEEN, {}

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        reward = float(self.ale.act(self._actions[action]))
        if not self.ale.game_over():
            return _UNSEEN, reward, False, False, {}
        # A game that ends at the very frame of the limit has ended: nothing is left to bootstrap from.
        terminated = self.ale.game_over(with_truncation=False)
        return _UNSEEN, reward, terminated, not terminated, {}

    def screen(self, out: Frame) -> None:
        """Copy the screen into `out`, shape `screen_shape`: [height, width], or [height, width, 3] in colour."""
        self._copy_screen(out)

    def lives(self) -> int:
        return self.ale.lives()

    def frames_left(self) -> int:
        """Raw frames until the time limit cuts the game off."""
        return self._max_game_frames - self.ale.getEpisodeFrameNumber()

    def render(self) -> Frame:
        """The screen in colour, [height, width, 3]."""
        return self.ale.getScreenRGB()

    def snapshot(self) -> dict[str, Any]:
        return {
            "ale": self.ale.cloneState(include_rng=True).serialize(),
            "np_random": self.np_random.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a snapshot. What `screen` shows is right again from the next step on."""
        # Qbert comes back wrong in an emulator that has not played a frame yet.
        self.ale.reset_game()
        self.ale.act(NOOP)
        self.ale.restoreState(ale_py.ALEState(state["ale"]))
        self.np_random.bit_generator.state = state["np_random"]
