"""How often lost learners are started again."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from learners.group import LearnerLostError
from learners.launcher import STABLE_SECONDS, Launcher
from machine.stop_signals import STOP_SIGNALS

SILENCE_LIMIT = 600.0


@pytest.fixture(autouse=True)
def handlers_stay() -> Iterator[None]:
    """A launcher handles signals."""
    before = {number: signal.getsignal(number) for number in (*STOP_SIGNALS, signal.SIGUSR1)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class LostLearners:
    """Two learners that were lost so many seconds after their start."""

    def __init__(self, seconds: float) -> None:
        self.begun = time.monotonic() - seconds

    def signal(self, number: int) -> None:
        pass

    def wait(self) -> list[int]:
        return [LearnerLostError.exit_code, LearnerLostError.exit_code]

    def saved_folder(self) -> Path | None:
        return None

    def print_errors(self) -> None:
        pass

    def close(self) -> None:
        pass


def starts(ends: list[float], restarts: int) -> int:
    """How many starts there are, which end after so many seconds each."""
    left = list(ends)
    launcher = Launcher(lambda flags, is_stopped: LostLearners(left.pop(0)), restarts, SILENCE_LIMIT)
    assert launcher.run({}) == 1
    return len(ends) - len(left)


def test_starts_that_hang_count_though_a_hang_is_noticed_late() -> None:
    assert starts([SILENCE_LIMIT + 5] * 9, restarts=2) == 3


def test_a_start_that_held_gives_all_restarts_back() -> None:
    held = STABLE_SECONDS + 2 * SILENCE_LIMIT + 1
    assert starts([5, held, 5, 5, 5, 5], restarts=2) == 4
