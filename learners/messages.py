"""What one learner of a run tells the others before each update."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

MAX_GAMES = 128  # in one message; the others are told at once after it


class Game(NamedTuple):
    """A finished game."""

    game_return: float
    length: int
    worker: int


class LearnerMessage(NamedTuple):
    """Counts are those since the learner's last message. All defaults: a sign of life."""

    ends: bool = False  # it wants the run to end now
    used_up: bool = False  # it has received its share of the steps, and has no batch any more
    ready: bool = False  # it has a batch
    busy: bool = False  # what the first learner says: it waits for an evaluation
    goal_reached: bool = False  # what the first learner says: the mean return has reached --stop_at_return
    updates: int = 0  # that it has made
    report: bool = False  # what the first learner says: all report after this update
    save: int = 0  # likewise: 0 no, 1 a checkpoint, 2 with the replays
    steps: int = 0  # agent steps
    frames: int = 0  # game frames, in real time
    games_left: int = 0  # those that had no room in the message
    games: Sequence[Game] = ()  # that ended

    def encoded(self) -> torch.Tensor:
        """The message: as many numbers, whatever the news are. So it has room for the first games only."""
        news = self._replace(games=self.games[:MAX_GAMES], games_left=len(self.games[MAX_GAMES:]))
        *numbers, games = news
        flat = [number for game in games for number in game]
        padding = [0.0] * (3 * MAX_GAMES - len(flat))
        return torch.tensor([*map(float, (*numbers, len(games), *flat)), *padding], dtype=torch.float64)

    @classmethod
    def decoded(cls, message: torch.Tensor) -> "LearnerMessage":
        numbers, flat = message.tolist()[:NUMBERS], message.tolist()[NUMBERS:]
        ends, used_up, ready, busy, goal_reached, updates, report, save, steps, frames, left, count = numbers
        triples = [flat[i : i + 3] for i in range(0, 3 * int(count), 3)]
        games = [Game(game_return, int(length), int(worker)) for game_return, length, worker in triples]
        flags = bool(ends), bool(used_up), bool(ready), bool(busy), bool(goal_reached)
        counts = int(steps), int(frames), int(left)
        return cls(*flags, int(updates), bool(report), int(save), *counts, games)


NUMBERS = len(LearnerMessage._fields)  # of a message before its games: the last one is how many games it has


@dataclass
class Unsent:
    """What a learner has received, and not told the others yet."""

    steps: int = 0
    frames: int = 0
    games: list[Game] = field(default_factory=list)

    def add(self, steps: int, frames: int, games: Sequence[Game]) -> None:
        self.steps += steps
        self.frames += frames
        self.games += games

    def take(self) -> LearnerMessage:
        """The news of one message."""
        news = LearnerMessage(steps=self.steps, frames=self.frames, games=self.games)
        self.steps, self.frames, self.games = 0, 0, []
        return news
