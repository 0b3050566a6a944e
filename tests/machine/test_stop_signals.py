"""While a program starts, a signal ends it with one sentence and an exit code that no script takes for a finished run.

Later: one signal, two at once, a second one later, and a closed terminal under nohup."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from machine.stop_signals import SAME_SIGNAL_SECONDS, STOP_SIGNALS, StopSignals

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "\nstopped while it started; nothing was saved\n"
SETS = "import os, signal; from machine.stop_signals import StopSignals, exit_on_signals; exit_on_signals(); "


@pytest.fixture(autouse=True)
def not_under_nohup() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_program_that_starts(number: signal.Signals, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", f"{SETS}print(flush=True); signal.pause()"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.send_signal(number)
        assert (process.stderr.read(), process.wait(timeout=60)) == (SENTENCE, code)


def output_of(program: str) -> tuple[str, str, int]:
    done = subprocess.run([sys.executable, "-c", SETS + program], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr, done.returncode


def test_under_nohup_a_closed_terminal_does_not_end_it() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # children inherit this
    assert output_of("os.kill(os.getpid(), signal.SIGHUP); print('goes on')") == ("goes on\n", "", 0)


def test_after_the_work_a_signal_changes_nothing_any_more() -> None:
    program = "\nwith StopSignals():\n    pass\nos.kill(os.getpid(), signal.SIGINT)\nprint('ended')"
    assert output_of(program) == ("ended\n", "", 0)


@pytest.mark.slow
def test_a_run_that_loads_its_libraries_stops_at_once(tmp_path: Path) -> None:
    words = ["main.py", "--op_mode=train", f"--results_dir={tmp_path}/runs"]
    with subprocess.Popen(
        [sys.executable, "-v", *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "import 'option_flags'" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.stderr.read().endswith(SENTENCE)
        assert process.wait(timeout=60) == 130
    assert not (tmp_path / "runs").exists()


# --- While a run trains -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_second_signal_counts_if_it_comes_later(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    before = signal.getsignal(number)
    with StopSignals() as stop:
        assert (stop.requested, stop.stop_now) == (False, False)
        for now, stop_now in ((100.0, False), (100.0 + SAME_SIGNAL_SECONDS, False), (102.0, True)):  # noqa: B007
            signal.raise_signal(number)
            assert (stop.requested, stop.stop_now) == (True, stop_now)
    assert signal.getsignal(number) == before


def test_a_stop_that_another_machine_asks_for_counts_like_a_signal() -> None:
    with StopSignals() as stop:
        stop.request()
        signal.raise_signal(signal.SIGHUP)
        assert (stop.requested, stop.stop_now) == (True, False)


def test_a_signal_to_save_does_not_stop_the_run() -> None:
    with StopSignals() as stop:
        signal.raise_signal(signal.SIGUSR1)
        assert (stop.requested, stop.stop_now, stop.save_now) == (False, False, True)


def test_under_nohup_a_closed_terminal_does_not_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.requested
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
