"""Which action each frame of a game plays and, in a game that does not wait, what follows from each decision.

A decision is made at a frame, from the newest screen. Its action takes effect some frames later: after so many as
`--action_delay` says, or, with a real clock, when an inference process has made it. What follows, until the action of
another decision takes effect, is credited to it.
"""

import dataclasses
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from option_flags import EnvironmentOptions
from wrappers.environment import EnvironmentSpec, random_action

Action = Any  # of the agent: a whole number, or an array of choices or of real numbers


@dataclass(slots=True)
class Effect:
    """A decision, and what it led to, from the frame in which its action took effect to that of the next one's.

    Without frames, its action was not played before the end of the episode, or before the next one took effect.
    """

    decision: int | None  # its number; None: an action that belongs to no decision
    action: Action = None
    seen: int = 0  # frames before the screen that it was chosen from
    value: float = 0.0  # the network's estimate
    age: int = 0  # frames from that screen to its effect
    reward: float = 0.0  # unclipped
    frames: int = 0
    ended: bool = False  # the episode of the learner ended, or was cut off
    cut: bool = False  # by a time limit


class Played(NamedTuple):
    """What a frame plays."""

    action: Action
    age: int | None  # frames since the screen that the action was chosen from; None for one that nobody chose
    effect: Effect | None = None  # where the action comes from
    is_idle: bool = False


class Turns:
    """The frames of a game that waits: all frames of a step play its action."""

    def begin(self) -> None:
        """A game begins."""

    def decide(self, action: Action) -> None:
        """A step begins."""
        self._action = action

    def next_action(self, random: np.random.Generator) -> Action:
        """The action of the coming frame."""
        return self._action

    def played(self, reward: float) -> None:
        """The frame was played, with this unclipped reward."""

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing is known between two steps."""


class Timeline:
    """The frames of a game that does not wait, counted over all games.

    An action is played for `skipped_frames` frames from the one in which it took effect, or until the next one takes
    effect. In all other frames the idle action is played: no-op, the latest action, or a random action that is drawn
    anew every `skipped_frames` frames. With `repeat`, idle frames before the first action of a game play no-op.
    Repeated frames count as idle too. No-op is action 0, or an array of zeros: the middle of a Box.
    """

    def __init__(self, spec: EnvironmentSpec, options: EnvironmentOptions) -> None:
        self._kind, self._sizes = spec.action_kind, spec.action_sizes
        self._noop: Action = 0 if self._kind == "discrete" else np.zeros(len(self._sizes), np.int64)
        self._hold = options.skipped_frames
        self._idle = options.idle_action
        self.frame = 0  # frames so far
        self._idle_count = 0
        self._counted = (0, 0)  # frames, and idle ones, that `take_frames` has returned
        self.begin()

    def begin(self) -> None:
        """An episode begins: no action has taken effect, and decisions before it are forgotten."""
        self._acting: Effect | None = None  # whose action took effect last
        self._since = 0  # the frame in which it did
        self._credited: Effect | None = None  # the decision that what happens is credited to
        self._known: list[Effect] = []
        self._idle_since: int | None = None  # the frame since which the idle action is played
        self._idle_choice = self._noop
        self.playing = Played(self._noop, None)  # in the newest frame

    def take_effect(self, effect: Effect) -> None:
        """Its action is played from the coming frame on."""
        self._acting, self._since = effect, self.frame
        before = self._credited
        if effect.decision is None or (before is not None and before.decision == effect.decision):
            return  # a wrapper presses FIRE: what follows is still credited to the decision before
        self._know()
        effect.age = self.frame - effect.seen
        self._credited = effect

    def next_action(self, random: np.random.Generator) -> Action:
        """The action of the coming frame."""
        acting = self._acting
        is_idle = acting is None or self.frame >= self._since + self._hold
        if acting is not None and (not is_idle or self._idle == "repeat"):
            self._idle_since = None
            self.playing = Played(acting.action, self.frame - acting.seen, acting, is_idle)
        else:
            if self._idle_since is None:
                self._idle_since = self.frame
            if self._idle == "random" and (self.frame - self._idle_since) % self._hold == 0:
                chosen = random_action(self._kind, self._sizes, random)
                self._idle_choice = int(chosen) if self._kind == "discrete" else chosen
            self.playing = Played(self._idle_choice, None, None, True)
        return self.playing.action

    def played(self, reward: float) -> None:
        """The frame was played, with this unclipped reward."""
        self.frame += 1
        self._idle_count += self.playing.is_idle
        if self._credited is not None:
            self._credited.reward += reward
            self._credited.frames += 1

    def end(self, cut: bool) -> None:
        """The episode is over, `cut` by a time limit or not. This, too, is credited to the latest decision."""
        if self._credited is not None:
            self._credited.ended, self._credited.cut = True, cut
            self._know()

    def take_effects(self) -> list[Effect]:
        """The effects that are complete, without those that an earlier call returned."""
        known, self._known = self._known, []
        return known

    def take_frames(self) -> tuple[int, int]:
        """The number of frames since the last call, and how many of them played the idle action."""
        (frames, idle), self._counted = self._counted, (self.frame, self._idle_count)
        return self.frame - frames, self._idle_count - idle

    def _know(self) -> None:
        """The effect of the credited decision is complete, if there is one."""
        if self._credited is not None:
            self._known.append(self._credited)
            self._credited = None


class DelayedTimeline(Timeline):
    """Each action takes effect `action_delay` frames after its decision.

    Actions that a wrapper presses in a step count as decisions of the agent in this step, and those that it presses
    during a reset as nobody's. An episode ends with a step. If a life was lost in this step, the end is credited to the
    decision in effect when it was lost, and later ones have no effect: their actions are still played if the game goes
    on, but nothing is credited to them.
    """

    # Enough for a snapshot, which is taken between two steps, when no effect waits to be taken.
    SAVED = ("frame", "_idle_count", "_counted", "_since", "_idle_since", "_idle_choice", "_lives")

    def __init__(self, spec: EnvironmentSpec, options: EnvironmentOptions, count_lives: Callable[[], int]) -> None:
        self._delay = options.action_delay
        self._period = options.frames_per_step
        self._count_lives = count_lives
        self.step: int | None = None  # the number of the agent's step, which its decisions get; None during a reset
        super().__init__(spec, options)

    def begin(self) -> None:
        super().begin()
        self._waiting: deque[Effect] = deque()
        self._lives = self._count_lives()
        self._lost: Effect | None = None  # the credited decision when a life was lost in this step

    def decide(self, action: Action) -> None:
        """A decision, from the screen after the frames so far."""
        self._waiting.append(Effect(self.step, action, self.frame))
        self._lost = None

    def next_action(self, random: np.random.Generator) -> Action:
        self._let_take_effect()
        return super().next_action(random)

    def played(self, reward: float) -> None:
        super().played(reward)
        lives = self._count_lives()
        if 0 < lives < self._lives:
            self._lost = self._credited or Effect(None)
        self._lives = lives

    def end(self, cut: bool) -> None:
        if self._lost is not None and self._credited is not None and self._credited is not self._lost and not cut:
            self._lost.ended = True
            self._credited.frames = 0  # it took effect after the life was lost
            self._know()
        else:
            super().end(cut)
        for effect in self._waiting:
            if effect.decision is not None:
                self._known.append(Effect(effect.decision))
                effect.decision = None

    def take_effects(self) -> list[Effect]:
        self._let_take_effect()
        if self.frame == self._since + self._period:
            self._know()
        return super().take_effects()

    def state(self) -> dict[str, Any]:
        groups = ([self._acting], [self._credited], list(self._waiting))
        effects = [[dataclasses.astuple(effect) for effect in group if effect] for group in groups]
        return {"effects": effects, **{name: getattr(self, name) for name in self.SAVED}}

    def restore(self, state: dict[str, Any]) -> None:
        acting, credited, waiting = ([Effect(*effect) for effect in group] for group in state["effects"])
        self._acting, self._credited = next(iter(acting), None), next(iter(credited), None)
        self._waiting = deque(waiting)
        for name in self.SAVED:
            setattr(self, name, state[name])

    def _let_take_effect(self) -> None:
        """Let the decision take effect whose frame has come."""
        if self._waiting and self._waiting[0].seen + self._delay <= self.frame:
            self.take_effect(self._waiting.popleft())
