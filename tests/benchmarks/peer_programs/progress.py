"""What the programs of all peers share: their command line, and the lines of progress that they write.

It needs no package beyond Python itself, because every peer has its own environment.
"""

import argparse
import json
import os
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from run_files.metrics import NewLines

PROGRESS = "progress.jsonl"
GAMES = "games.txt"  # one return in each line
LAST_GAMES = 100
PERIOD = 5.0  # seconds between two lines of progress


@dataclass(frozen=True)
class Arguments:
    """What a program is asked to do. It runs until it is interrupted, or until the time is over."""

    game: str  # such as Qbert
    seed: int
    seconds: float
    folder: Path  # for its progress
    scratch: Path  # for everything else; removed afterwards


def parse_arguments(words: Sequence[str] | None = None) -> Arguments:
    parser = argparse.ArgumentParser()
    parser.add_argument("--game", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    return Arguments(**vars(parser.parse_args(words)))


class Progress:
    """Writes `{"seconds", "agent_steps", "return_mean", "games"}` as a line of JSON every few seconds.

    return_mean is the mean over the last 100 whole games with unclipped rewards, None before the first has ended.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / PROGRESS
        self._began = time.monotonic()
        self._next = self._began
        self._returns: deque[float] = deque(maxlen=LAST_GAMES)
        self._games = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def finished(self, returns: Iterable[float]) -> None:
        """Games have ended with these returns."""
        for one in returns:
            self._returns.append(float(one))
            self._games += 1

    def report(self, agent_steps: int) -> None:
        """Write a line if the last one is old enough."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PERIOD
        mean = sum(self._returns) / len(self._returns) if self._returns else None
        line = {"seconds": now - self._began, "agent_steps": agent_steps, "return_mean": mean, "games": self._games}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


class GamesFile:
    """The returns of games that end in several processes: each appends lines to one file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / GAMES
        self._lines = NewLines(self._path)

    def add(self, return_: float) -> None:
        # One small write in append mode: lines of several processes do not mix.
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, f"{return_}\n".encode())
        finally:
            os.close(file)

    def new(self) -> list[float]:
        """The returns that were added since the last call."""
        return [float(line) for line in self._lines.read()]


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
