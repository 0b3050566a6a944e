"""Scripted inference processes and a clock that jumps from event to event, to drive a `RealtimePlayer`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from agents.acting import Decision
from option_flags import Config
from replay.unroll_layout import UnrollLayout
from workers.policy_inputs import PolicyInputs, as_stacks
from workers.realtime.inference import RealtimeSetup
from workers.realtime.player import Book, ClockedGame, RealtimePlayer
from workers.shared_weights import SharedWeights
from wrappers.timeline import Effect

FPS = 10.0


def note_effects(game: ClockedGame, note: Callable[[Effect], None]) -> None:
    """Call `note` with each decision of the game when it takes effect."""
    take_effect = game.timeline.take_effect

    def noted(effect: Effect) -> None:
        take_effect(effect)
        note(effect)

    game.timeline.take_effect = noted  # type: ignore[method-assign]


class FakeInference:
    """Decision n chooses action n % `actions` in all games, has the value n and the weight version 100 − n % 7."""

    def __init__(self, seconds: Callable[[int], float], games: int, layout: UnrollLayout) -> None:
        self._seconds = seconds
        self._games = games
        self._layout = layout
        self._numbers: dict[int, int] = {}  # by process
        self.requests = 0
        self.now = 0.0
        self.finished_at: dict[int, float] = {}  # by process
        self.stacks: list[np.ndarray] = []  # that each decision has seen

    def request(self, process: int, inputs: PolicyInputs) -> None:
        self.stacks.append(as_stacks(inputs.observations, self._layout).copy())
        self._numbers[process] = self.requests
        self.finished_at[process] = self.now + self._seconds(process)
        self.requests += 1

    def result(self, process: int) -> tuple[Decision, int]:
        number, layout, games = self._numbers[process], self._layout, self._games
        decision = Decision(
            torch.full((games,), number % layout.action_count),
            torch.full((games, layout.action_count), float(number)),
            torch.full((games,), float(number)),
            torch.zeros((games, layout.feature_size), dtype=torch.float16),
            torch.zeros((games, 2, layout.lstm_size)),
        )
        return decision, 100 - number % 7


class FakeSession:
    """Plays with N scripted processes; `kill` ends one."""

    def __init__(
        self,
        games: Sequence[ClockedGame],
        layout: UnrollLayout,
        book: Book,
        seconds: Callable[[int], float],
        processes: int,
        rule: Literal["none", "max", "mean"] = "none",
    ) -> None:
        self.inference = FakeInference(seconds, len(games), layout)
        config = Config()
        setup = RealtimeSetup(
            config=replace(config, realtime=replace(config.realtime, fps=FPS, stagger=rule)),
            layout=layout,
            compute_dtype=torch.float32,
            weights=SharedWeights(1),
            processes=processes,
            seed=(0,),
        )
        self.player = RealtimePlayer(games, setup, book, self._request, start=0.0)
        for process in range(processes):
            self.player.joined(process, 0.0)

    def _request(self, process: int, inputs: PolicyInputs) -> None:
        self.inference.request(process, inputs)  # as it is by then: a subclass replaces it

    def play(self, until: Callable[[], bool]) -> None:
        """Play until the condition holds."""
        while not until():
            self.play_on()

    def play_on(self) -> None:
        """Let the next thing happen."""
        inference = self.inference
        answers = {at: process for process, at in inference.finished_at.items()}
        first = min(answers, default=math.inf)
        inference.now = min(first, self.player.next_time)
        if first <= self.player.next_time:
            process = answers[first]
            del inference.finished_at[process]
            self.player.answered(process, *inference.result(process), inference.now)
        else:
            self.player.happen(inference.now)

    def kill(self, process: int) -> None:
        """The process dies now, and is replaced at once."""
        self.inference.finished_at.pop(process, None)
        self.player.lost(process)
        self.player.joined(process, self.inference.now)
