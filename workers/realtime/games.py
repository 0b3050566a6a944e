"""Games that are played frame by frame, each with a register of the action that it plays."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import gymnasium
import numpy as np

from option_flags import EnvironmentOptions
from wrappers.emulator import NOOP, Frame


class Register(NamedTuple):
    """The action that a game plays, and where it comes from."""

    action: int
    value: float  # the network's value estimate
    seen: int  # frames of the game before the screen from which the action was chosen
    process: int  # the inference process that chose it
    sequence: int  # the number of the decision


class PlayedFrame(NamedTuple):
    """One frame of one game."""

    action: int
    register: Register | None  # where the action comes from; None for idle actions, but for `repeat`, and for FIRE
    age: int | None  # frames since the screen from which it was chosen
    idle: bool
    reward: float  # unclipped
    ended: bool  # the episode of the learner ended, or was cut off
    cut: bool  # by the time limit


class Screens(NamedTuple):
    """What a decision is made from: the count of frames and the episode of each game, then."""

    frames: tuple[int, ...]
    episodes: tuple[int, ...]


class RealtimeGames:
    """E games, played frame by frame at the same time.

    An action is played for `skipped_frames` frames, or until the next one takes effect. In all other frames a game
    plays the idle action, as with delayed actions: NOOP, the latest action, or a random action that is drawn anew every
    `skipped_frames` frames. A game pauses until it is started, and when its episode has ended.
    """

    def __init__(
        self,
        environments: Sequence[gymnasium.Env[Frame, int]],
        uniforms: Sequence[np.random.Generator],  # of each game
        options: EnvironmentOptions,
    ) -> None:
        self._games = [_Game(env, rng, options) for env, rng in zip(environments, uniforms, strict=True)]

    def __len__(self) -> int:
        return len(self._games)

    def start(self, game: int, seed: int | None = None, uniforms: np.random.Generator | None = None) -> None:
        """Start an episode. Decisions for the one before have no effect on it."""
        if uniforms is not None:
            self._games[game].uniforms = uniforms
        self._games[game].start(seed)

    def play_frame(self) -> Iterator[tuple[int, PlayedFrame]]:
        """Play one frame of each running game, one after the other."""
        for index, game in enumerate(self._games):
            if game.is_running:
                yield index, game.play()

    def screens(self) -> Screens:
        """What a decision that starts now is made from."""
        return Screens(tuple(game.frames for game in self._games), tuple(game.episode for game in self._games))

    def look(self, game: int) -> Frame:
        """The newest frame of a game, as its steps would return it; the next call for this game overwrites it."""
        return self._games[game].look()

    def uniforms(self) -> list[float]:
        """A random number for each game, from its own stream; 0 for a game that pauses."""
        return [game.uniforms.random() if game.is_running else 0.0 for game in self._games]

    def is_current(self, game: int, screens: Screens) -> bool:
        """Whether the episode of these screens still goes on."""
        found = self._games[game]
        return found.is_running and found.episode == screens.episodes[game]

    def act(self, game: int, register: Register) -> int:
        """Let an action take effect. Returns the age of its screen, in frames."""
        found = self._games[game]
        found.register, found.chosen_at = register, found.frames
        return found.frames - register.seen


class _Game:
    """One game and its register. Frames are counted over all of its episodes."""

    def __init__(
        self, env: gymnasium.Env[Frame, int], uniforms: np.random.Generator, options: EnvironmentOptions
    ) -> None:
        self._env = env
        self.uniforms = uniforms
        self._idle = options.idle_action
        self._hold = options.skipped_frames
        assert isinstance(env.action_space, gymnasium.spaces.Discrete)
        self._action_count = int(env.action_space.n)
        self.look: Callable[[], Frame] = env.get_wrapper_attr("look")
        self.is_running = False
        self.frames = 0
        self.episode = 0
        self.register: Register | None = None
        self.chosen_at = 0  # the frame in which the action in the register took effect
        self._idle_since: int | None = None
        self._idle_choice = NOOP

    def start(self, seed: int | None) -> None:
        self._env.reset(seed=seed)
        self.is_running = True
        self.episode += 1
        self.register = self._idle_since = None
        self._idle_choice = NOOP

    def play(self) -> PlayedFrame:
        idle = self.register is None or self.frames >= self.chosen_at + self._hold
        from_register = self.register is not None and (not idle or self._idle == "repeat")
        register = self.register if from_register else None
        action = self._idle_action() if register is None else register.action
        if register is not None:
            self._idle_since = None
        _, reward, terminated, truncated, info = self._env.step(action)
        if "pressed" in info:  # FIRE after a reset or a lost life
            action, register, idle = info["pressed"], None, False
        self.frames += 1
        self.is_running = not (terminated or truncated)
        return PlayedFrame(
            action,
            register,
            None if register is None else self.frames - 1 - register.seen,
            idle,
            float(reward),
            ended=not self.is_running,
            cut=truncated and not terminated,
        )

    def _idle_action(self) -> int:
        if self._idle_since is None:
            self._idle_since = self.frames
        if self._idle == "random" and (self.frames - self._idle_since) % self._hold == 0:
            self._idle_choice = int(self.uniforms.integers(self._action_count))
        return self._idle_choice
