"""Plays games in real time: what happens when, without the clock and the processes themselves."""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import Decision
from option_flags import EnvironmentOptions
from workers.policy_inputs import PolicyInputs
from workers.realtime.inference import RealtimeSetup
from workers.realtime.schedule import RULES
from workers.rollout import each_action
from wrappers.atari import REWARD_CLIPPING
from wrappers.environment import FAILED_RESETS, Observation, as_observation, environment_spec
from wrappers.timeline import Effect, Played, Timeline

EFFECT, FRAME, START = range(3)  # the order of things that happen at the same time
LATEST_START = 1.0  # seconds after its time in the schedule; what is more is no part of an inference

Request = Callable[[int, PolicyInputs], None]  # asks an inference process for a decision; the inputs are copied


class PlayedFrame(NamedTuple):
    """One frame of one game."""

    played: Played
    reward: float  # unclipped
    ended: bool  # the episode of the learner ended, or was cut off
    cut: bool  # by the time limit


class ClockedGame:
    """One game, its timeline and its random numbers. It pauses until it is started, and when its episode has ended."""

    def __init__(
        self, env: gymnasium.Env[Any, Any], uniforms: np.random.Generator, options: EnvironmentOptions
    ) -> None:
        self._env = env
        self._uniforms = uniforms
        self.timeline = Timeline(environment_spec(env), options)
        self._look: Callable[[], Any] = env.get_wrapper_attr("look")
        self.is_running = False
        self.episode = 0
        self.failed_resets: list[str] = []  # those that were tried again, until they are reported

    def start(self, seed: int | None = None, uniforms: np.random.Generator | None = None) -> None:
        """Start an episode. Decisions for the one before have no effect on it."""
        if uniforms is not None:
            self._uniforms = uniforms
        _, info = self._env.reset(seed=seed)
        self.failed_resets += info.get(FAILED_RESETS, ())
        self.is_running = True
        self.episode += 1
        self.timeline.begin()

    def look(self) -> Observation:
        """The newest observation; the next look overwrites it."""
        return as_observation(self._look())

    def draw(self, shape: tuple[int, ...]) -> NDArray[np.float64] | float:
        """Random numbers for the next action; 0 while the game pauses."""
        return self._uniforms.random(shape) if self.is_running else np.zeros(shape)

    def play(self) -> PlayedFrame:
        """Play one frame."""
        timeline = self.timeline
        _, reward, terminated, truncated, info = self._env.step(timeline.next_action(self._uniforms))
        if "pressed" in info:  # FIRE after a reset or a lost life
            timeline.playing = Played(info["pressed"], None)
        timeline.played(float(reward))
        self.is_running = not (terminated or truncated)
        cut = truncated and not terminated
        if not self.is_running:
            timeline.end(cut)
        return PlayedFrame(timeline.playing, float(reward), not self.is_running, cut)


class Book:
    """Is told what happens, in the order in which it happens; this one notes nothing.

    Decisions are numbered in the order of their starts.
    """

    plays_on = True  # the next episode of a game starts at once; otherwise the game pauses

    def started(self, sequence: int, inputs: PolicyInputs, rewards: Sequence[float]) -> None:
        """A decision starts, from these inputs, which change later. The rewards of the games since the one before."""

    def decided(self, sequence: int, decision: Decision, version: int, seconds: float) -> None:
        """A decision has been made in so many seconds, by weights of this version."""

    def known(self, game: int, effect: Effect) -> None:
        """The effect of a decision is complete. It has none if the episode is over, or its process is gone."""

    def played(self, game: int, frame: PlayedFrame, missed: bool) -> None:
        """A frame was played; `missed`: after the next one was due."""


@dataclass
class _Step:
    """A decision, from its start until its action takes effect."""

    sequence: int
    started: float
    seen: list[tuple[int, int]]  # of each game: its episode and its frame when the decision started
    decision: Decision | None = None


class _Event(NamedTuple):
    """Something that a process is to do: start an inference, or let its action take effect."""

    time: float
    kind: int
    order: int  # of two events of the same time and kind, the one that was planned first comes first
    process: int


class RealtimePlayer:
    """Plays E games frame by frame, and lets the inference processes decide for all of them together.

    The caller waits until `next_time` or for an answer of a process, and passes the time. So all of this is the same
    with a real clock and real processes as with those of a test. `happen` does one thing, the earliest that is due;
    between two of them the caller looks for answers, so that frames that are late do not hold them up.

    Frame k is due k / fps after the start, so there is no drift. A frame that is late is played at once, and none is
    skipped. It is missed if the next one is due already when it is played.

    A process is absent until it `joined`. Then it waits for its start, runs until it `answered`, waits for its effect,
    waits for its next start, and so on, by the staggering rule.

    The network gets clipped rewards. The frame stack of a decision has the newest frame at its start, and those of the
    decisions before it.
    """

    def __init__(
        self, games: Sequence[ClockedGame], setup: RealtimeSetup, book: Book, request: Request, start: float
    ) -> None:
        self.games = games
        self._book = book
        self._request = request
        environment, realtime = setup.config.environment, setup.config.realtime
        self._fps = realtime.fps
        self._rule = RULES[realtime.stagger](setup.processes, environment.skipped_frames / self._fps)
        self._clip = REWARD_CLIPPING[environment.reward_clipping_method]
        self._started_at = start
        self._frames = 0  # played so far
        self._inputs = PolicyInputs.at_start(len(games), setup.layout)
        self._state = self._inputs.state
        self._rewards = [0.0] * len(games)
        self._episodes = [-1] * len(games)  # at the latest decision
        self._sequence = 0
        self._steps: dict[int, _Step] = {}  # by process
        self._events: list[_Event] = []  # a heap
        self._planned = 0

    @property
    def _frame_due(self) -> float:
        return self._started_at + self._frames / self._fps

    @property
    def next_time(self) -> float:
        """When something happens next, unless an answer comes before."""
        return min(self._events[0].time if self._events else math.inf, self._frame_due)

    def happen(self, now: float) -> None:
        """Do the next thing, which is due. Of things at the same time, effects come first, then frames."""
        if not self._events or self._events[0][:2] > (self._frame_due, FRAME):
            self._play_frame(now)
            return
        event = heapq.heappop(self._events)
        if event.kind == EFFECT:
            self._plan(self._rule.next_start(event.time), START, event.process)
            self._take_effect(self._steps.pop(event.process))
        else:
            # A start that is a little late counts from its time in the schedule, see `Staggering`. One that is very
            # late, because the games cannot keep to the clock, counts from now.
            self._start(event.process, event.time if now - event.time <= LATEST_START else now)

    def joined(self, process: int, now: float) -> None:
        """A process is ready for its first inference."""
        self._plan(self._rule.next_start(now), START, process)

    @torch.inference_mode()
    def answered(self, process: int, decision: Decision, version: int, now: float) -> None:
        """A process has made its decision, with weights of this version."""
        step = self._steps[process]
        step.decision = decision
        self._plan(self._rule.finished(step.started, now), EFFECT, process)
        self._book.decided(step.sequence, decision, version, now - step.started)
        self._state.lstm_state[:] = decision.lstm_state
        self._state.previous_actions[:] = decision.actions.to(self._state.previous_actions.dtype)

    def lost(self, process: int) -> None:
        """A process is gone, and with it the decision that it was making, or that had not taken effect yet."""
        self._events = [event for event in self._events if event.process != process]
        heapq.heapify(self._events)
        step = self._steps.pop(process, None)
        if step is not None:
            for e in range(len(self.games)):
                self._book.known(e, Effect(step.sequence))

    def _plan(self, time: float, kind: int, process: int) -> None:
        self._planned += 1
        heapq.heappush(self._events, _Event(time, kind, self._planned, process))

    @torch.inference_mode()
    def _start(self, process: int, time: float) -> None:
        for e, game in enumerate(self.games):
            is_new, self._episodes[e] = game.episode != self._episodes[e], game.episode
            if game.episode:  # otherwise there is nothing to see yet
                self._inputs.show(e, game.look(), starts=is_new)
            if is_new:
                self._state.restart(e)
            else:
                self._state.previous_rewards[e] = self._clip(self._rewards[e])
        shape = self._inputs.uniforms.shape[1:]
        self._inputs.uniforms.numpy()[:] = [game.draw(shape) for game in self.games]
        self._book.started(self._sequence, self._inputs, self._rewards)
        self._request(process, self._inputs)
        seen = [(game.episode, game.timeline.frame) for game in self.games]
        self._steps[process] = _Step(self._sequence, time, seen)
        self._sequence += 1
        self._rewards = [0.0] * len(self.games)

    def _take_effect(self, step: _Step) -> None:
        assert step.decision is not None
        choices = zip(each_action(step.decision.actions), step.decision.values.tolist(), strict=True)
        for e, (action, value) in enumerate(choices):
            game, (episode, seen) = self.games[e], step.seen[e]
            effect = Effect(step.sequence, action, seen, value)
            if game.is_running and game.episode == episode:
                game.timeline.take_effect(effect)
            else:
                self._book.known(e, effect)

    def _play_frame(self, now: float) -> None:
        self._frames += 1
        is_missed = now >= self._frame_due
        for e, game in enumerate(self.games):
            if game.is_running:
                frame = game.play()
                self._rewards[e] += frame.reward
                self._book.played(e, frame, is_missed)
                for effect in game.timeline.take_effects():
                    self._book.known(e, effect)
                if frame.ended and self._book.plays_on:
                    game.start()
