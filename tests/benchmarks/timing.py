"""Time stages in turns on one core, so that other programs slow all of them equally."""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import cv2
import torch

TURN_SECONDS = 0.03  # a turn repeats a fast stage for so long; a slow stage runs once
LEAST_ROUNDS = 3


@dataclass(frozen=True)
class Stage:
    """A piece of the platform that is timed alone."""

    name: str
    run: Callable[[], object]
    steps: int  # agent steps in one run
    in_learner: bool = False  # if so, denormal numbers are flushed, as in the learner
    by_wall_clock: bool = False  # CPU time excludes other programs, but also the GPU, and adds up threads


@dataclass
class Times:
    """Seconds per agent step of some stages, round by round."""

    rounds: dict[str, list[float]] = field(default_factory=dict)

    def seconds(self, name: str) -> float:
        """The median."""
        return statistics.median(self.rounds[name])

    def ratio(self, name: str, other: str) -> float:
        """The median over the rounds of the ratio of two stages' times."""
        pairs = zip(self.rounds[name], self.rounds[other], strict=True)
        return statistics.median(own / their for own, their in pairs)

    def add(self, more: "Times") -> None:
        for name, rounds in more.rounds.items():
            self.rounds.setdefault(name, []).extend(rounds)


@contextmanager
def one_core() -> Iterator[None]:
    """One thread each for torch and OpenCV, as in a worker, pinned to one core where the system allows it."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    threads_before, cv2_before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    if before:
        os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        if before:
            os.sched_setaffinity(0, before)
        torch.set_num_threads(threads_before)
        cv2.setNumThreads(cv2_before)
        torch.set_flush_denormal(False)


def in_turns(stages: Sequence[Stage], seconds: float) -> Times:
    """Run each stage once per round until the time is over. Runs before the first round warm up."""
    repeats = {stage.name: _repeats(stage) for stage in stages}
    times = Times({stage.name: [] for stage in stages})
    end = time.perf_counter() + seconds
    done = 0
    while done < LEAST_ROUNDS or time.perf_counter() < end:
        for stage in stages:
            times.rounds[stage.name].append(_turn(stage, repeats[stage.name]))
        done += 1
    return times


def _repeats(stage: Stage) -> int:
    _turn(stage, 1)
    return max(1, round(TURN_SECONDS / max(1e-6, _turn(stage, 1) * stage.steps)))


def _turn(stage: Stage, repeats: int) -> float:
    """Seconds per agent step."""
    torch.set_flush_denormal(stage.in_learner)
    clock = time.perf_counter if stage.by_wall_clock else time.process_time
    begun = clock()
    for _ in range(repeats):
        stage.run()
    return (clock() - begun) / (repeats * stage.steps)
