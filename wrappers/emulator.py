"""Atari games: which there are, and one whose steps are raw frames."""

import difflib
import re
from typing import Any, TypeAlias, cast

import ale_py
import gymnasium
import numpy as np
import numpy.typing as npt
from ale_py import roms
from gymnasium.spaces import Box, Discrete

from option_flags import EnvironmentOptions
from options.rules import UsageError
from wrappers.environment import Watch

Frame: TypeAlias = npt.NDArray[np.uint8]
AtariWrapper: TypeAlias = gymnasium.Wrapper[Frame, int, Frame, int]
Start: TypeAlias = tuple[Frame, dict[str, Any]]  # what `reset` returns
Step: TypeAlias = tuple[Frame, float, bool, bool, dict[str, Any]]  # what `step` returns

NOOP = 0  # index of the action "do nothing" in the minimal action set of every game, and in the full one
FIRE = 1  # index of FIRE in the games that have it there: `Emulator.has_fire`

# The observation of every step: the screen is only copied where `screen` is called.
NO_SCREEN: Frame = np.empty(0, np.uint8)

ID_ENDING = "NoFrameskip-v4"
ATARI = "ale_py.env:AtariEnv"
WITHOUT_NOOP = {"backgammon", "video_checkers"}  # board games in which every action is a move


def atari_games() -> dict[str, str]:
    """All games that `make_atari` can make: id → name of the game's file.

    Gymnasium has an id of this form for the older games only.
    """
    of_ale = [spec for spec in gymnasium.registry.values() if spec.namespace == "ALE" and spec.entry_point == ATARI]
    games = {f"{spec.name}{ID_ENDING}": spec.kwargs["game"] for spec in of_ale}
    return {name: game for name, game in games.items() if game not in WITHOUT_NOOP}


def check_atari(options: EnvironmentOptions) -> None:
    """Raise UsageError if `make_atari` cannot make the game."""
    known = atari_games()
    if options.env in known:
        return
    # Compared without the prefixes and endings of all kinds of ids, which would make all names look similar.
    name = re.sub(r"^ale/|(noframeskip|deterministic)?(-ram)?(-?v\d+)?$", "", options.env.lower())
    games = {game.removesuffix(ID_ENDING).lower(): game for game in known}
    closest = [games[match] for match in difflib.get_close_matches(name, games, n=3)]
    hint = f"the closest: {', '.join(closest)}" if closest else "such as PongNoFrameskip-v4"
    raise UsageError(f"--env must be an Atari game whose id ends in {ID_ENDING} ({hint}), not {options.env!r}.")


class Emulator(gymnasium.Env[Frame, int]):
    """The Arcade Learning Environment (ALE), frame by frame. ale_py has one too, which copies every screen in colour.

    A step plays one raw frame and returns an empty array; `screen` copies the current screen. A game begins with a
    random number of no-op frames, and an action may be sticky: it is then played once more in place of the next one.
    `np_random` is the only source of randomness; the wrappers draw from it. `watch` is called with every frame, in
    colour, and the score since the random start.
    """

    def __init__(self, options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> None:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        # ALE has sticky actions too, but its saved states do not contain the previous action.
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.setInt("max_num_frames_per_episode", options.max_game_frames)
        # Only ALE's sticky actions use ALE's own generator. Without this line, its seed is the current time.
        self.ale.setInt("random_seed", 1)
        self.ale.loadROM(str(roms.get_rom_path(atari_games()[options.env])))
        self._initial_state = self.ale.cloneState(include_rng=True)
        self._max_game_frames = options.max_game_frames
        self._most_noops = options.noop_threshold
        self._stickiness = options.repeat_action_probability
        self._watch = watch
        super().reset(seed=seed)

        minimal = self.ale.getMinimalActionSet()
        actions = self.ale.getLegalActionSet() if options.full_action_space else minimal
        self._actions = [action.value for action in actions]
        self.action_meanings = tuple(action.name for action in actions)
        # Such games may wait for FIRE. In the full set, FIRE is action 1 of all games.
        self.has_fire = minimal[1] == ale_py.Action.FIRE
        # gymnasium types the elements of Discrete as numpy integers, but plain integers are elements too.
        self.action_space = cast(gymnasium.Space[int], Discrete(len(actions)))
        self.observation_space = Box(0, 255, NO_SCREEN.shape, np.uint8)
        height, width = self.ale.getScreenDims()
        self.screen_shape: tuple[int, ...] = (height, width) if options.grayscaling_frames else (height, width, 3)
        # Copies the screen into an array of this shape.
        self.screen = self.ale.getScreenGrayscale if options.grayscaling_frames else self.ale.getScreenRGB
        self.lives = self.ale.lives
        self._action = NOOP  # of the latest frame
        self._score, self._keeps_score = 0.0, False  # from the end of a random start on, as the return

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        """Start a new game. With a seed, it equals the first game of a new emulator with this seed."""
        if seed is not None:
            super().reset(seed=seed)
            # In about a fifth of the games, ALE's reset keeps some state of the previous game.
            self.ale.restoreState(self._initial_state)
        self._begin()
        if self._most_noops > 0:
            for _ in range(int(self.np_random.integers(1, self._most_noops, endpoint=True))):
                _, _, terminated, truncated, _ = self.step(NOOP)
                if terminated or truncated:  # once more, without no-op frames
                    self._begin()
                    break
        self._keeps_score = True
        return NO_SCREEN, {}

    def _begin(self) -> None:
        self.ale.reset_game()
        self._action, self._score, self._keeps_score = NOOP, 0.0, False
        self._show()

    def step(self, action: int) -> Step:
        if self._stickiness == 0 or self.np_random.random() >= self._stickiness:
            self._action = action
        reward = float(self.ale.act(self._actions[self._action]))
        self._score += reward * self._keeps_score
        self._show()
        if not self.ale.game_over():
            return NO_SCREEN, reward, False, False, {}
        # A game that ends at exactly the frame limit is terminated: there is no next state to bootstrap from.
        terminated = self.ale.game_over(with_truncation=False)
        return NO_SCREEN, reward, terminated, not terminated, {}

    def _show(self) -> None:
        if self._watch is not None:
            self._watch(self.ale.getScreenRGB(), self._score)

    def frames_left(self) -> int:
        """The number of raw frames until the limit cuts the game off."""
        return self._max_game_frames - self.ale.getEpisodeFrameNumber()

    def snapshot(self) -> dict[str, Any]:
        return {
            "ale": self.ale.cloneState(include_rng=True).serialize(),
            "np_random": self.np_random.bit_generator.state,
            "action": self._action,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a snapshot. `screen` is correct again after the next step."""
        # Qbert is restored incorrectly in an emulator that has not played a frame yet.
        self.ale.reset_game()
        self.ale.act(NOOP)
        self.ale.restoreState(ale_py.ALEState(state["ale"]))
        self.np_random.bit_generator.state = state["np_random"]
        self._action = state["action"]
