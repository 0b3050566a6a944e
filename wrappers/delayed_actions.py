"""Actions that take effect some frames after they were chosen, in a game that does not wait."""

import dataclasses
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from option_flags import EnvironmentOptions
from wrappers.emulator import NOOP, AtariWrapper, Start, Step

Action = Any  # of the agent: a whole number, or an array of choices or of real numbers


class Played(NamedTuple):
    """The action of a frame."""

    action: Action
    age: int | None  # frames since the screen that the action was chosen from; None for a no-op or random idle action


@dataclass(slots=True)
class Effect:
    """What a decision led to, from the frame in which its action took effect to the frame of the next one's."""

    decision: int  # number of the decision, from 0 in the first game of the environment
    reward: float  # unclipped
    ended: bool = False  # the game ended, or a life was lost that ends the learner's episode
    cut: bool = False  # the time limit ended the game
    frames: int = 0  # of one that was cut: those that were played


class HeldAction:
    """The action of each frame of a game that does not wait for decisions.

    An action is played for `skipped_frames` frames from the one in which it took effect, or until the next one takes
    effect. In all other frames the idle action is played: NOOP, the latest action, or a random action that is drawn
    anew every `skipped_frames` frames. With `repeat`, idle frames before the first action of a game play NOOP. Repeated
    frames count as idle too.

    NOOP is action 0, or an array of zeros: the middle of a Box.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], options: EnvironmentOptions) -> None:
        self._space = env.action_space
        self.noop: Action = NOOP if isinstance(self._space, Discrete) else np.zeros(self._space.shape, np.int64)
        self._hold = options.skipped_frames
        self._idle = options.idle_action
        self.clear()

    def clear(self) -> None:
        """A game begins: no action has taken effect."""
        self.action: Action | None = None  # the latest that took effect
        self.since = 0  # the frame in which it did
        self._idle_since: int | None = None  # the frame since which the idle action is played
        self._idle_choice = self.noop

    def take_effect(self, action: Action, frame: int) -> None:
        self.action, self.since = action, frame

    def play(self, frame: int, random: np.random.Generator) -> tuple[Action, bool, bool]:
        """The action of this frame, whether it is the latest one, and whether the frame is idle."""
        is_idle = self.action is None or frame >= self.since + self._hold
        if self.action is not None and (not is_idle or self._idle == "repeat"):
            self._idle_since = None
            return self.action, True, is_idle
        if self._idle_since is None:
            self._idle_since = frame
        if self._idle == "random" and (frame - self._idle_since) % self._hold == 0:
            self._idle_choice = self._random_action(random)
        return self._idle_choice, False, True

    def _random_action(self, random: np.random.Generator) -> Action:
        if isinstance(self._space, Discrete):
            return int(random.integers(int(self._space.n)))
        if isinstance(self._space, MultiDiscrete):
            return random.integers(self._space.nvec)
        assert isinstance(self._space, Box)
        # Choices of composite actions have bounds, and are rounded down.
        high = np.where(np.isfinite(self._space.high), self._space.high + 1, 1)
        return random.uniform(np.maximum(self._space.low, -1), high)

    def state(self) -> list[Any]:
        return [self.action, self.since, self._idle_since, self._idle_choice]

    def restore(self, state: list[Any]) -> None:
        self.action, self.since, self._idle_since, self._idle_choice = state


class DelayedActions(AtariWrapper):
    """Plays raw frames. The first of every `frames_per_step` frames brings a decision; the others repeat its action.

    A decision made at frame s, from the screen after s frames, takes effect at frame s + `action_delay`, as
    `HeldAction` describes.

    `take_effects` returns the effects of decisions. A decision has none if the game, or the episode of
    `--episodic_life`, ended before its action took effect; its action still counts in the game if the game goes on.
    """

    # A snapshot is taken between two agent steps, so what is known of a single step is left out.
    SAVED = ("frame", "frame_count", "idle_count", "decisions", "lives")

    def __init__(self, env: gymnasium.Env[Any, Any], options: EnvironmentOptions) -> None:
        super().__init__(env)
        self._delay = options.action_delay
        self._period = options.frames_per_step
        self._held = HeldAction(env, options)
        self._episodic_life = options.episodic_life
        self._count_lives = env.get_wrapper_attr("lives") if env.has_wrapper_attr("lives") else lambda: 0
        self._decisions = 0
        self._effects: list[Effect] = []
        self._frame_count = self._idle_count = 0  # since they were taken
        self._played = Played(self._held.noop, None)
        self._begin()

    def _begin(self) -> None:
        """Forget everything about the game before."""
        self._frame = 0  # frames played in this game
        self._waiting: deque[tuple[int | None, Action, int]] = deque()  # (decision, action, frame of effect)
        self._held.clear()
        self._current: Effect | None = None  # of the decision that took effect last
        self._lives = self._lives_before = 0
        self._lost_life: Effect | None = None  # the current effect when a life was lost in this step

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        observation, info = self.env.reset(seed=seed, options=options)
        self._begin()
        self._effects.clear()
        self._lives = self._lives_before = self._count_lives()
        return observation, info

    def step(self, action: Action) -> Step:
        if self._frame % self._period == 0:
            self._waiting.append((self._decisions, action, self._frame + self._delay))
            self._decisions += 1
            self._lives_before, self._lost_life = self._lives, None
            self._take_effect()  # at once, with a delay of 0
        action_of_frame, is_chosen, is_idle = self._held.play(self._frame, self.np_random)
        age = self._frame - self._held.since + self._delay if is_chosen else None
        self._played = Played(action_of_frame, age)
        self._idle_count += is_idle
        observation, reward, terminated, truncated, info = self.env.step(action_of_frame)
        self._frame += 1
        self._frame_count += 1
        if self._current is not None:
            self._current.reward += float(reward)
        if terminated:
            self._complete(ended=True)
        else:
            self._notice_lost_life(step_over=truncated or self._frame % self._period == 0)
            if truncated:
                self._complete(cut=True)
            elif self._frame == self._held.since + self._period:
                self._complete()
            self._take_effect()
        if terminated or truncated:
            self._waiting.clear()
        return observation, float(reward), terminated, truncated, info

    def decision_count(self) -> int:
        """The number of decisions so far, in all games; the next decision has this number."""
        return self._decisions

    def take_effects(self) -> list[Effect]:
        """The effects that are complete, without those that an earlier call returned."""
        effects, self._effects = self._effects, []
        return effects

    def take_frames(self) -> tuple[int, int]:
        """The number of frames since the last call, and how many of them played the idle action."""
        frames, self._frame_count, self._idle_count = (self._frame_count, self._idle_count), 0, 0
        return frames

    def played(self) -> Played:
        """What the newest frame plays. It is set before the emulator plays the frame."""
        return self._played

    def own_state(self) -> dict[str, Any]:
        return {
            **super().own_state(),
            "held": self._held.state(),
            "waiting": [list(entry) for entry in self._waiting],
            "current": [] if self._current is None else [dataclasses.astuple(self._current)],
            "effects": [dataclasses.astuple(effect) for effect in self._effects],
        }

    def set_own_state(self, state: dict[str, Any]) -> None:
        super().set_own_state(state)
        self._held.restore(state["held"])
        self._waiting = deque(tuple(entry) for entry in state["waiting"])
        self._current = next((Effect(*effect) for effect in state["current"]), None)
        self._effects = [Effect(*effect) for effect in state["effects"]]

    def _take_effect(self) -> None:
        """Let the decision take effect whose frame has come."""
        if self._waiting and self._waiting[0][2] <= self._frame:
            decision, action, _ = self._waiting.popleft()
            self._held.take_effect(action, self._frame)
            self._current = None if decision is None else Effect(decision, 0.0)

    def _notice_lost_life(self, step_over: bool) -> None:
        """End the learner's episode after a step in which a life was lost, as `AtariGame` does."""
        lives = self._count_lives()
        if lives < self._lives:
            self._lost_life = self._current
        self._lives = lives
        if not (step_over and self._episodic_life and 0 < lives < self._lives_before):
            return
        if self._lost_life is not None:
            self._lost_life.ended = True
        if self._lost_life is self._current:
            self._complete()
        self._current = None
        self._waiting = deque((None, action, frame) for _, action, frame in self._waiting)

    def _complete(self, *, ended: bool = False, cut: bool = False) -> None:
        """Complete the current effect, if there is one."""
        if self._current is not None:
            self._current.ended |= ended
            if cut:
                self._current.cut, self._current.frames = True, self._frame - self._held.since
            self._effects.append(self._current)
            self._current = None
