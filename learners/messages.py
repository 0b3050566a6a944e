"""What one learner of a run tells the others before each update."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

MAX_GAMES = 128  # in one message; more games wait for the next one


class Game(NamedTuple):
    """A finished game."""

    game_return: float
    length: int
    worker: int


class LearnerMessage(NamedTuple):
    """Counts are those since the learner's last message. All defaults: a sign of life."""

    ends: bool = False  # it wants the run to end
    ready: bool = False  # it has a batch
    goal_reached: bool = False  # what the first learner says: the mean return has reached --stop_at_return
    updates: int = 0  # that it has made
    report: bool = False  # what the first learner says: all report after this update
    save: int = 0  # likewise: 0 no, 1 a checkpoint, 2 with the replays
    steps: int = 0  # agent steps
    frames: int = 0  # game frames, in real time
    games: Sequence[Game] = ()  # that ended

    def encoded(self) -> torch.Tensor:
        """The message: as many numbers, whatever the news are."""
        *numbers, games = self
        flat = [number for game in games for number in game]
        padding = [0.0] * (3 * MAX_GAMES - len(flat))
        return torch.tensor([*map(float, (*numbers, len(games), *flat)), *padding], dtype=torch.float64)

    @classmethod
    def decoded(cls, message: torch.Tensor) -> "LearnerMessage":
        ends, ready, goal_reached, updates, report, save, steps, frames, count, *flat = message.tolist()
        triples = [flat[i : i + 3] for i in range(0, 3 * int(count), 3)]
        games = [Game(game_return, int(length), int(worker)) for game_return, length, worker in triples]
        flags = bool(ends), bool(ready), bool(goal_reached)
        return cls(*flags, int(updates), bool(report), int(save), int(steps), int(frames), games)


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
        """The news of one message; games that have no room in it stay for the next."""
        news = LearnerMessage(steps=self.steps, frames=self.frames, games=self.games[:MAX_GAMES])
        self.steps, self.frames, self.games = 0, 0, self.games[MAX_GAMES:]
        return news
