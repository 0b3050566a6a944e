"""Plays games in real time: what happens when, without the clock and the processes themselves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch

from agents.acting import Decision
from replay.unroll_layout import UnrollLayout
from workers.policy_inputs import PolicyInputs
from workers.realtime.frame_clock import FrameClock
from workers.realtime.games import PlayedFrame, RealtimeGames, Register, Screens
from workers.realtime.inference_schedule import EFFECT, FRAME, InferenceSchedule
from wrappers.environment import as_observation


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

    def missed(self, frames: int) -> None:
        """So many frames were played after the next one was due."""

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
    screens: Screens
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
        games: RealtimeGames,
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
        self._episodes = (-1,) * count  # at the latest decision
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

    def stopped(self, seconds: float, now: float) -> None:
        """This process was stopped for so long."""
        self._schedule.stopped(seconds, now)

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
        screens = self.games.screens()
        restarted = [now != before for now, before in zip(screens.episodes, self._episodes, strict=True)]
        self._episodes = screens.episodes
        for game, is_new in enumerate(restarted):
            self._inputs.show(game, as_observation(self.games.look(game)), starts=is_new)
            if is_new:
                self._state.restart(game)
            else:
                self._state.previous_rewards[game] = self._clip(self._rewards[game])
        self._inputs.uniforms.numpy()[:] = self.games.uniforms()
        seen = Seen(self._inputs, self._rewards)
        self._book.started(self._sequence, seen)
        self._inference.request(process, self._inputs)
        self._under_way[process] = _UnderWay(self._sequence, screens)
        self._sequence += 1
        self._rewards = [0.0] * len(self.games)

    def _act(self, process: int) -> None:
        under_way = self._under_way.pop(process)
        decision = under_way.decision
        assert decision is not None
        choices = zip(self._choose(decision).tolist(), decision.values.tolist(), strict=True)
        for game, (action, value) in enumerate(choices):
            if self.games.is_current(game, under_way.screens):
                register = Register(action, value, under_way.screens.frames[game], process, under_way.sequence)
                self._book.took_effect(game, register, self.games.act(game, register))
            else:
                self._book.left_out(game, under_way.sequence)

    def _play_frame(self, now: float) -> None:
        missed = self._clock.missed
        self._clock.play(now)
        for game, frame in self.games.play_frame():
            self._rewards[game] += frame.reward
            self._book.played(game, frame)
            if frame.ended and self._book.episode_over(game):
                self.games.start(game)
        if self._clock.missed > missed:
            self._book.missed(self._clock.missed - missed)
