"""How often lost learners are started again."""

import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from learners.group import LearnerLostError
from learners.launcher import STABLE_SECONDS, Launcher
from machine.stop_signals import STOP_SIGNALS
from run_files.checkpoint import checkpoint_name, write_checkpoint
from run_files.run_folder import CHECKPOINTS
from tests.run_files.some_checkpoint import some_content, some_progress

SILENCE_LIMIT = 600.0
LOST = (LearnerLostError.exit_code, LearnerLostError.exit_code)


@pytest.fixture(autouse=True)
def handlers_stay() -> Iterator[None]:
    """A launcher handles signals."""
    before = {number: signal.getsignal(number) for number in (*STOP_SIGNALS, signal.SIGUSR1)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class LostLearners:
    """Two learners that were lost so many seconds after their start."""

    def __init__(self, seconds: float, codes: Sequence[int] = LOST, folder: Path | None = None) -> None:
        self.begun = time.monotonic() - seconds
        self._codes, self._folder = codes, folder

    def signal(self, number: int) -> None:
        pass

    def wait(self) -> list[int]:
        return list(self._codes)

    def saved_folder(self) -> Path | None:
        return self._folder

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


@pytest.mark.parametrize(("codes", "expected"), [((0, -9), 0), ((-9, 0), 1)])
def test_learners_that_are_lost_at_the_end_of_a_run_do_not_start_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], codes: tuple[int, int], expected: int
) -> None:
    """Learner 0 waits for the last evaluation; the others have nothing to do any more."""
    (tmp_path / CHECKPOINTS).mkdir()
    content = some_content(7, progress=some_progress(4321, 7))
    write_checkpoint(tmp_path / CHECKPOINTS / checkpoint_name(7), content)
    run = [LostLearners(5, codes, tmp_path)]
    launcher = Launcher(lambda flags, is_stopped: run.pop(), 3, SILENCE_LIMIT)
    assert launcher.run({"op_mode": "train", "environment_max_steps": 4000}) == expected
    printed = capsys.readouterr()
    assert (printed.err if expected else printed.out).removeprefix("main.py: ") == (
        f"learner {codes.index(-9)} was lost at the end of the run, which does not start again: "
        "--environment_max_steps=4000 is already reached: the checkpoint has 4321 agent steps; a larger number would "
        "be right.\n"
    )


def test_learners_that_are_lost_before_start_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / CHECKPOINTS).mkdir()
    content = some_content(7, progress=some_progress(4321, 7))
    write_checkpoint(tmp_path / CHECKPOINTS / checkpoint_name(7), content)
    runs = [LostLearners(5, (0, 0)), LostLearners(5, LOST, tmp_path)]
    launcher = Launcher(lambda flags, is_stopped: runs.pop(), 3, SILENCE_LIMIT)
    assert launcher.run({"op_mode": "train", "environment_max_steps": 5000}) == 0
    assert "all learners start again from the last checkpoint" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("codes", "expected"), [((0, 0), 0), ((143, 143), 130), ((-15, 143), 130), ((0, 143), 0), (LOST, 0), ((2, 143), 2)]
)
def test_a_stop_signal_while_the_learners_start_is_no_finished_run(codes: tuple[int, int], expected: int) -> None:
    sent: list[int] = []

    class Interrupted(LostLearners):
        def signal(self, number: int) -> None:
            sent.append(number)

        def wait(self) -> list[int]:
            signal.raise_signal(signal.SIGINT)
            return super().wait()

    assert Launcher(lambda flags, is_stopped: Interrupted(1, codes), 3, SILENCE_LIMIT).run({}) == expected
    assert sent == [signal.SIGTERM], "to SIGINT, a Python that has only begun to start answers with a traceback"
