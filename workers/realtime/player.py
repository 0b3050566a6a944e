"""Plays games in real time: what happens when, without the clock and the processes themselves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import gymnasium
import numpy as np
import torch

from agents.acting import Decision
from option_flags import EnvironmentOptions
from replay.unroll_layout import UnrollLayout
from workers.policy_inputs import PolicyInputs
from workers.realtime.schedule import EFFECT, FRAME, FrameClock, InferenceSchedule
from wrappers.delayed_actions import HeldAction
from wrappers.emulator import Frame
from wrappers.environment import as_observation


class Register(NamedTuple):
    """The action that a game plays, and where it comes from."""

    action: int
    value: float  # the network's value estimate
    seen: int  # frames of the game before the screen from which the action was chosen
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


class ClockedGame:
    """One game, its register and its random numbers. It pauses until it is started, and when its episode has ended.

    An action is played as `HeldAction` describes. Frames are counted over all episodes.
    """

    def __init__(
        self, env: gymnasium.Env[Frame, int], uniforms: np.random.Generator, options: EnvironmentOptions
    ) -> None:
        self._env = env
        self._uniforms = uniforms
        self._held = HeldAction(env, options)
        self._register: Register | None = None
        self.look: Callable[[], Frame] = env.get_wrapper_attr("look")  # the newest frame; the next look overwrites it
        self.is_running = False
        self.frames = 0
        self.episode = 0

    def start(self, seed: int | None = None, uniforms: np.random.Generator | None = None) -> None:
        """Start an episode. Decisions for the one before have no effect on it."""
        if uniforms is not None:
            self._uniforms = uniforms
        self._env.reset(seed=seed)
        self.is_running = True
        self.episode += 1
        self._register = None
        self._held.clear()

    def draw(self) -> float:
        """A random number for the next action; 0 while the game pauses."""
        return self._uniforms.random() if self.is_running else 0.0

    def act(self, register: Register) -> int:
        """Let an action take effect. Returns the age of its screen, in frames."""
        self._register = register
        self._held.take_effect(register.action, self.frames)
        return self.frames - register.seen

    def play(self) -> PlayedFrame:
        """Play one frame."""
        action, is_chosen, idle = self._held.play(self.frames, self._uniforms)
        register = self._register if is_chosen else None
        _, reward, terminated, truncated, info = self._env.step(action)
        if "pressed" in info:  # FIRE after a reset or a lost life
            action, register, idle = info["pressed"], None, False
        age = None if register is None else self.frames - register.seen
        self.frames += 1
        self.is_running = not (terminated or truncated)
        ended, cut = not self.is_running, truncated and not terminated
        return PlayedFrame(action, register, age, idle, float(reward), ended, cut)


class Seen(NamedTuple):
    """What a decision is made from. It belongs to the player, and changes later."""

    inputs: PolicyInputs
    rewards: list[float]  # of each game, unclipped, since the decision before


class Book:
    """Is told what happens, in the order in which it happens; this one notes nothing.

    Decisions are numbered in the order of their starts.
    """

    def started(self, sequence: int, seen: Seen) -> None:
        """A decision starts."""

    def decided(self, sequence: int, decision: Decision, version: int, seconds: float) -> None:
        """A decision has been made in so many seconds, by weights of this version."""

    def lost(self, sequence: int) -> None:
        """A decision will never be made, or take effect: its process is gone."""

    def left_out(self, game: int, sequence: int) -> None:
        """A decision has no effect in this game, because its episode is over."""

    def took_effect(self, game: int, register: Register, age: int) -> None:
        """A decision takes effect from the next frame on. Its screen is `age` frames old."""

    def played(self, game: int, frame: PlayedFrame) -> None:
        """A frame was played."""

    def missed(self) -> None:
        """The frame of all games that comes now is played after the next one was due."""

    def episode_over(self, game: int) -> bool:
        """The episode has ended. Returns whether the next one starts at once; otherwise the game pauses."""
        return True


class Inference(Protocol):
    """The inference processes."""

    def request(self, process: int, inputs: PolicyInputs) -> None:
        """Ask a process for a decision. The inputs are copied."""

    def result(self, process: int) -> tuple[Decision, int]:
        """The decision that a process has made, and the version of its weights."""


@dataclass
class _UnderWay:
    sequence: int
    seen: list[tuple[int, int]]  # of each game: its episode and its frames when the decision started
    decision: Decision | None = None


class RealtimePlayer:
    """Plays E games frame by frame, and lets the inference processes decide for all of them together.

    The caller waits until `next_time` or for an answer of a process, and passes the time. So all of this is the same
    with a real clock and real processes as with those of a test. `happen` does one thing, the earliest that is due;
    between two of them the caller looks for answers, so that frames that are late do not hold them up.

    The network gets clipped rewards. The frame stack of a decision has the newest frame at its start, and those of the
    decisions before it.
    """

    def __init__(
        self,
        games: Sequence[ClockedGame],
        layout: UnrollLayout,
        book: Book,
        inference: Inference,
        schedule: InferenceSchedule,
        clock: FrameClock,
        *,
        clip: Callable[[float], float] = float,
        choose: Callable[[Decision], torch.Tensor] = lambda decision: decision.actions,
    ) -> None:
        self.games = games
        self._book = book
        self._inference = inference
        self._schedule = schedule
        self._clock = clock
        self._clip = clip
        self._choose = choose
        count = len(games)
        self._inputs = PolicyInputs.at_start(count, layout)
        self._state = self._inputs.state
        self._rewards = [0.0] * count
        self._episodes = [-1] * count  # at the latest decision
        self._sequence = 0
        self._under_way: dict[int, _UnderWay] = {}  # by process

    @property
    def next_time(self) -> float:
        """When something happens next, unless an answer comes before."""
        return min(self._schedule.next_due[0], self._clock.due)

    def happen(self, now: float) -> None:
        """Do the next thing, which is due. Of things at the same time, effects come first, then frames."""
        if self._schedule.next_due < (self._clock.due, FRAME):
            event = self._schedule.take(now)
            if event.kind == EFFECT:
                self._act(event.process)
            else:
                self._start(event.process)
        else:
            self._play_frame(now)

    def joined(self, process: int, now: float) -> None:
        """A process is ready."""
        self._schedule.joined(process, now)

    @torch.inference_mode()
    def answered(self, process: int, now: float) -> None:
        """A process has made its decision."""
        under_way = self._under_way[process]
        decision, version = self._inference.result(process)
        under_way.decision = decision
        seconds = self._schedule.finished(process, now)
        self._book.decided(under_way.sequence, decision, version, seconds)
        self._state.lstm_state[:] = decision.lstm_state
        self._state.previous_actions[:] = self._choose(decision).int()  # those that are played

    def lost(self, process: int) -> None:
        """A process is gone."""
        self._schedule.lost(process)
        under_way = self._under_way.pop(process, None)
        if under_way is not None:
            self._book.lost(under_way.sequence)

    @torch.inference_mode()
    def _start(self, process: int) -> None:
        for e, game in enumerate(self.games):
            is_new, self._episodes[e] = game.episode != self._episodes[e], game.episode
            self._inputs.show(e, as_observation(game.look()), starts=is_new)
            if is_new:
                self._state.restart(e)
            else:
                self._state.previous_rewards[e] = self._clip(self._rewards[e])
        self._inputs.uniforms.numpy()[:] = [game.draw() for game in self.games]
        seen = Seen(self._inputs, self._rewards)
        self._book.started(self._sequence, seen)
        self._inference.request(process, self._inputs)
        self._under_way[process] = _UnderWay(self._sequence, [(game.episode, game.frames) for game in self.games])
        self._sequence += 1
        self._rewards = [0.0] * len(self.games)

    def _act(self, process: int) -> None:
        under_way = self._under_way.pop(process)
        decision = under_way.decision
        assert decision is not None
        choices = zip(self._choose(decision).tolist(), decision.values.tolist(), strict=True)
        for e, (action, value) in enumerate(choices):
            game, (episode, frames) = self.games[e], under_way.seen[e]
            if game.is_running and game.episode == episode:
                register = Register(action, value, frames, under_way.sequence)
                self._book.took_effect(e, register, game.act(register))
            else:
                self._book.left_out(e, under_way.sequence)

    def _play_frame(self, now: float) -> None:
        is_missed = self._clock.play(now)
        for e, game in enumerate(self.games):
            if game.is_running:
                frame = game.play()
                self._rewards[e] += frame.reward
                self._book.played(e, frame)
                if frame.ended and self._book.episode_over(e):
                    game.start()
        if is_missed:
            self._book.missed()
