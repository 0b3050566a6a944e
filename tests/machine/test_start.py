"""CTRL+C and SIGTERM while a program starts: one sentence, and an exit code that no script takes for a finished run."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "\nstopped while it started; nothing was saved\n"
WAITS = "import time; from machine.start import exit_on_signals; exit_on_signals(); print(flush=True); time.sleep(60)"
# CTRL+C during the first import.
EARLY = """
import sys
from machine.start import exit_on_signals
class Interrupted:
    def find_spec(self, *arguments):
        raise KeyboardInterrupt
del sys.modules["signal"]
sys.meta_path.insert(0, Interrupted())
exit_on_signals()
"""


@pytest.fixture(autouse=True)
def not_under_nohup() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_program_that_starts(number: signal.Signals, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITS], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.send_signal(number)
        assert (process.stderr.read(), process.wait(timeout=60)) == (SENTENCE, code)


def test_under_nohup_a_closed_terminal_does_not_end_it() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # children inherit this
    program = (
        f"import os, signal; {WAITS.split('print', maxsplit=1)[0]}os.kill(os.getpid(), signal.SIGHUP); print('goes on')"
    )
    assert subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True) == "goes on\n"


def test_after_the_work_a_signal_changes_nothing_any_more() -> None:
    program = (
        "import os, signal\nfrom machine.start import exit_on_signals\nfrom machine.stop_signals import StopSignals\n"
        "exit_on_signals()\nwith StopSignals():\n    pass\nos.kill(os.getpid(), signal.SIGINT)\nprint('ended')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", 0)


def test_before_the_handlers_are_set_there_is_no_traceback_either() -> None:
    program = f"import signal\n{EARLY}"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == (SENTENCE, 130)


@pytest.mark.slow
@pytest.mark.parametrize("learners", [1, 2])
def test_a_run_that_loads_its_libraries_stops_at_once(tmp_path: Path, learners: int) -> None:
    words = ["main.py", "--op_mode=train", f"--learners={learners}", f"--results_dir={tmp_path}/runs"]
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
