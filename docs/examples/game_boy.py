"""The games of a Game Boy as an environment, with the emulator PyBoy: `pip install pyboy==2.8.0`.

`--env=game_boy:GameBoy-v0` finds it in the current folder. PyBoy comes without games: bring the file of one that you
own, or write a small one with `game_boy_game.py`.
"""

import importlib
import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

with warnings.catch_warnings(action="ignore"):  # it says where its library for windows is, which is not used here
    from pyboy import PyBoy

BUTTONS = ("left", "right", "up", "down", "a", "b", "start", "select")
HEIGHT, WIDTH = 144, 160
BOOT_FRAMES = 80  # until the logo is gone and the game has begun
LONGEST_WAIT = 60  # frames at the start of a game, so that games differ


class GameBoy(gymnasium.Env[NDArray[np.uint8], int]):
    """Each step is one frame, of which there are 59.73 a second. The agent sees the screen in gray.

    `rom`: the file of the game.
    `buttons`: the actions: what is held down during a step, such as "", "left" or "right+a".
    `score`: the reward of a step is by how much the score has risen. It is a sum over addresses in memory, of which
        each has a factor, as {"0xC000": 1}; or "module:function" names a function from the memory to the score.
    `over`: a game ends when one of these addresses has this value, as {"0xC001": 1}.
    `state`: a file with the state in which games begin, saved with PyBoy; without one, they begin after the logo.
    `start`: the buttons that are pressed then, one after the other, before the agent plays.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 59.73}  # noqa: RUF012

    def __init__(
        self,
        rom: str,
        buttons: Sequence[str] = ("", "left", "right", "up", "down", "a", "b"),
        score: str | Mapping[str, float] | None = None,
        over: Mapping[str, int] | None = None,
        state: str | None = None,
        start: Sequence[str] = (),
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(0, 255, (HEIGHT, WIDTH), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(buttons))  # type: ignore[assignment]
        self.emulator = PyBoy(rom, window="null", sound_emulated=False, cgb=False, log_level="ERROR")
        self.emulator.set_emulation_speed(0)  # as fast as it can
        self.buttons = [action.split("+") for action in buttons]
        self.start = start
        self.over = {int(address, 0): value for address, value in (over or {}).items()}
        if isinstance(score, str):
            module, _, function = score.partition(":")
            self.score = getattr(importlib.import_module(module), function)
        else:
            factors = {int(address, 0): factor for address, factor in (score or {}).items()}
            self.score = lambda memory: sum(factor * memory[address] for address, factor in factors.items())
        if state is None:
            self.emulator.tick(BOOT_FRAMES, True, False)
        self.first_state = Path(state).read_bytes() if state else self.emulator_state()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed)  # seeds self.np_random
        self.emulator.load_state(io.BytesIO(self.first_state))
        self.emulator.tick(int(self.np_random.integers(1, LONGEST_WAIT, endpoint=True)), True, False)
        for button in self.start:
            self.play([button])
            self.play([])
        self.latest = self.score(self.emulator.memory)
        return self.seen(), {}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        self.play(self.buttons[action])
        memory = self.emulator.memory
        before, self.latest = self.latest, self.score(memory)
        is_over = any(memory[address] == value for address, value in self.over.items())
        return self.seen(), float(self.latest - before), is_over, False, {}

    def play(self, buttons: Sequence[str]) -> None:
        """One frame, in which these buttons are held."""
        for button in BUTTONS:
            (self.emulator.button_press if button in buttons else self.emulator.button_release)(button)
        self.emulator.tick(1, True, False)

    def seen(self) -> NDArray[np.uint8]:
        return np.array(self.emulator.screen.ndarray[:, :, 0])  # red, green and blue are equal

    def render(self) -> NDArray[np.uint8]:
        return np.array(self.emulator.screen.ndarray[:, :, :3])

    def close(self) -> None:
        self.emulator.stop(save=False)

    def snapshot(self) -> dict[str, Any]:
        """For runs with --reproducible: all that `restore` needs to go on with a game, in plain values and bytes."""
        return {"emulator": self.emulator_state(), "score": self.latest, "random": self.np_random.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        self.emulator.load_state(io.BytesIO(state["emulator"]))
        self.latest = state["score"]
        self.np_random.bit_generator.state = state["random"]

    def emulator_state(self) -> bytes:
        file = io.BytesIO()
        self.emulator.save_state(file)
        return file.getvalue()


gymnasium.register("GameBoy-v0", entry_point=f"{__name__}:GameBoy")
