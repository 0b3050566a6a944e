"""Learners that are lost, that hang or that cannot start, with a small program in place of main.py; and refusals."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import main
from learners import launcher
from learners.group import LearnerLostError
from learners.launcher import Launcher, Learners
from machine.stop_signals import STOP_SIGNALS
from processes.pool import RunFailedError

# In the second start, all learners end at once, in good order.
PROGRAM = """
import os, pathlib, sys, time
rank = int(os.environ["RANK"])
first = pathlib.Path(__file__).with_name(f"first_{{rank}}")
if rank == 0:
    print(*sys.argv[1:], flush=True)
if not first.exists():
    first.touch()
    exec({does}[rank])
"""
IS_LOST, HANGS = f"sys.exit({LearnerLostError.exit_code})", "time.sleep(1000)"
DIES, REFUSES = "os.kill(os.getpid(), 9)", "sys.exit('main.py: no.')"


@pytest.fixture(autouse=True)
def handlers_stay() -> Iterator[None]:
    """A launcher handles signals."""
    before = {number: signal.getsignal(number) for number in (*STOP_SIGNALS, signal.SIGUSR1)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *does: str, restarts: int = 3) -> int:
    program = folder / "main.py"
    program.write_text(PROGRAM.format(does=does))
    monkeypatch.setattr("sys.argv", [str(program)])
    monkeypatch.setattr(launcher, "END_SECONDS", 0.3)
    return Launcher(len(does), restarts, 600.0).run({"op_mode": "train", "lr": 0.5})


@pytest.mark.parametrize(("does", "lost"), [((IS_LOST, DIES), "1"), ((DIES, IS_LOST), "0"), ((IS_LOST, HANGS), "1")])
@pytest.mark.slow
def test_lost_learners_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], does: tuple[str, ...], lost: str
) -> None:
    assert run(monkeypatch, tmp_path, *does) == 0
    assert capfd.readouterr().out == (
        "--op_mode=train --lr=0.5\n"
        f"learner {lost} was lost: all learners start again from the beginning, because nothing was saved yet\n"
        "--op_mode=train --lr=0.5\n"
    )


def test_lost_learners_end_the_run_when_no_restart_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunFailedError, match="^learner 1 was lost, and --learner_restarts=0 are used up; a larger"):
        run(monkeypatch, tmp_path, IS_LOST, DIES, restarts=0)


def test_what_another_learner_says_of_its_end_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path, IS_LOST, REFUSES) == 1
    assert capfd.readouterr().err == "main.py: no.\n"


def test_no_learner_goes_on_where_another_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start_once(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        if started:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        started.append(popen(*arguments, **options))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start_once)
    with pytest.raises(RunFailedError, match="a learner could not be started .Resource temporarily unavailable."):
        Learners([sys.executable, "-c", HANGS], 2)
    assert started[0].poll() == -signal.SIGKILL


class FakeLearners(Learners):
    """Two learners that end after so many looks at them, or after a signal."""

    def __init__(self, looks: int, *codes: int, saved: Path | None = None) -> None:
        self.signals: list[int] = []
        self._looks, self._codes, self._saved = looks, codes, saved

    def exit_codes(self) -> list[int | None]:
        self._looks -= 1
        return [None, None] if self._looks > 0 and not self.signals else list(self._codes)

    def signal(self, number: int) -> None:
        self.signals.append(number)

    def saved_folder(self) -> Path | None:
        return self._saved

    def errors(self) -> bytes:
        return b""

    def close(self) -> None:
        pass


def test_learners_that_have_saved_start_from_the_last_checkpoint(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, saved = LearnerLostError.exit_code, Path("results/run")
    learners = [FakeLearners(1, lost, -9, saved=saved), FakeLearners(1, 0, 0)]
    started: list[Sequence[str]] = []

    def start(program: Sequence[str], count: int) -> FakeLearners:
        started.append(program)
        return learners.pop(0)

    monkeypatch.setattr("learners.launcher.Learners", start)
    assert Launcher(2, 3, 600.0).run({"op_mode": "train", "lr": 0.5}) == 0
    assert started[1][2:] == ["--op_mode=train_w_load", f"--load_model_url={saved}", "--lr=0.5"]
    said = "learner 1 was lost: all learners start again from the last checkpoint\n"
    assert capfd.readouterr().out == said


def test_learners_with_the_weights_of_another_run_start_from_these_again(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    learners = [FakeLearners(1, LearnerLostError.exit_code, -9), FakeLearners(1, 0, 0)]
    monkeypatch.setattr("learners.launcher.Learners", lambda *_: learners.pop(0))
    flags = {"op_mode": "train_w_load", "load_model_url": "results/other", "load_weights_only": True}
    assert Launcher(2, 3, 600.0).run(flags) == 0
    said = "learner 1 was lost: all learners start again from the beginning, because nothing was saved yet\n"
    assert capfd.readouterr().out == said


@pytest.mark.parametrize(("looks", "starts"), [([1] * 9, 3), ([1, 8, 1, 1, 1, 1], 4)])
@pytest.mark.slow
def test_a_start_that_held_gives_all_restarts_back(
    looks: list[int], starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list(looks)
    lost = LearnerLostError.exit_code
    monkeypatch.setattr("learners.launcher.Learners", lambda *_: FakeLearners(left.pop(0), lost, lost))
    with pytest.raises(RunFailedError):
        Launcher(2, 2, 0.4).run({})
    assert len(looks) - len(left) == starts


@pytest.mark.parametrize(
    ("codes", "expected"),
    [((0, 0), 0), ((143, 143), 130), ((-15, 143), 130), ((0, 143), 0), ((3, 3), 0), ((3, 143), 130), ((2, 143), 2)],
)
def test_a_stop_signal_while_the_learners_start_is_no_finished_run(
    codes: tuple[int, int], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learners = FakeLearners(100, *codes)

    def start(*_: Any) -> FakeLearners:
        signal.raise_signal(signal.SIGINT)
        return learners

    monkeypatch.setattr("learners.launcher.Learners", start)
    assert Launcher(2, 3, 600.0).run({}) == expected
    assert learners.signals == [signal.SIGTERM], "to SIGINT, a Python that has only begun to start says a traceback"


@pytest.mark.parametrize(("saved", "left"), [(Path("results/run"), "; its last checkpoint is left"), (None, "")])
def test_a_learner_that_is_lost_before_the_run_is_saved_is_no_orderly_end(
    saved: Path | None, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: Any) -> FakeLearners:
        signal.raise_signal(signal.SIGINT)
        return FakeLearners(100, -9, LearnerLostError.exit_code, saved=saved)

    monkeypatch.setattr("learners.launcher.Learners", start)
    with pytest.raises(RunFailedError, match=f"^learner 0 was lost before the run was saved{left}.$"):
        Launcher(2, 3, 600.0).run({})


def test_a_closed_terminal_stops_learners_as_ctrl_c_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their exit codes at the start, learners are told apart that were stopped and that were lost."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup, it is ignored
    learners = FakeLearners(100, -signal.SIGTERM, 128 + signal.SIGTERM)

    def start(*_: Any) -> FakeLearners:
        signal.raise_signal(signal.SIGHUP)
        return learners

    monkeypatch.setattr("learners.launcher.Learners", start)
    assert Launcher(2, 3, 600.0).run({}) == 128 + signal.SIGINT
    assert learners.signals == [signal.SIGTERM]


def test_a_learner_that_is_lost_after_the_first_one_has_ended_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    learners = [FakeLearners(1, 0, -9)]
    monkeypatch.setattr("learners.launcher.Learners", lambda *_: learners.pop())
    assert Launcher(2, 3, 600.0).run({}) == 0


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--batch_size=9"], "--batch_size=9 gives the replays 5 and 4 unrolls of a batch, which --learners=2 cannot"),
        (["--worker_count=1"], "--worker_count=1 leaves some of --learners=2 without a worker; 2 or more"),
        (
            ["--cluster=127.0.0.1:1"],
            "--cluster=127.0.0.1:1 has other machines play for one learner; --learners=1 would",
        ),
        (["--learners=-1"], "--learners must be a whole number"),
        (["--device=cuda:0"], "--learners=2 needs a device for each learner, and --device=cuda:0 is a single one"),
    ],
)
def test_bad_input_gives_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], sentence: str
) -> None:
    own = [] if flags == ["--learners=-1"] else ["--learners=2"]
    assert main.main(["--env=CartPole-v1", *own, *flags, f"--results_dir={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"main.py: {sentence}") and error.count("\n") == 1
    assert not list(tmp_path.iterdir())
