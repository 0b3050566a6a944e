"""The process that draws curves.png: requests through a pipe, replacement after a kill, exit with the learner."""

import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from reports.sinks import curves_process, curves_sink
from reports.sinks.curves_process import serve
from reports.sinks.curves_sink import LAST_REQUEST, NEW_REPORT, CurvesSink
from run_files.run_reader import RunReader
from tests.reports.some_run import write_run

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _long_wait_for_the_last_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves_sink, "LAST_DRAWING_SECONDS", 1000)


def drawers() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if "reports.sinks.curves_process" in command_line(p)]


def command_line(process: psutil.Process) -> list[str]:
    """The command line. For a moment after a process was started, the system does not tell it."""
    while not process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    return process.cmdline()


def wait_for_end(process: psutil.Process) -> None:
    """Wait without reading the exit code, because the sink reads it."""
    while process.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)


def test_closing_draws_a_last_time_and_leaves_nothing_behind(tmp_path: Path) -> None:
    messages: list[str] = []
    sink = CurvesSink(write_run(tmp_path / "run"), messages.append)
    sink.write({})
    (drawer,) = drawers()
    assert drawer.nice() == 19
    assert os.getsid(drawer.pid) != os.getsid(0), "CTRL+C does not reach it"
    drawer.kill()
    wait_for_end(drawer)
    sink.write({})
    sink.close()
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert not drawers() and not messages
    assert not list((tmp_path / "run").glob(".*"))


def test_an_evaluation_that_ends_after_the_last_report_is_drawn(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    for evaluated in (False, True):
        sink = CurvesSink(folder, lambda message: None)
        if evaluated:
            (folder / "evaluations.jsonl").touch()
        sink.close()
        assert (folder / "curves.png").exists() == evaluated


def test_a_failing_process_is_announced_once_and_a_hanging_one_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    sink = CurvesSink(tmp_path, messages.append)  # no folder of a run
    while not messages:
        sink.write({})
        time.sleep(0.01)
    sink.write({})
    sink.close()
    (sentence,) = messages
    assert "no longer drawn" in sentence and "config.json" in sentence and "\n" not in sentence

    monkeypatch.setattr(curves_sink, "LAST_DRAWING_SECONDS", 0.1)
    sink = CurvesSink(tmp_path, messages.append)
    (drawer,) = drawers()
    drawer.send_signal(signal.SIGSTOP)
    for _ in range(100_000):  # more than its pipe holds
        sink.write({})
    sink.close()
    assert not drawers() and len(messages) == 1


class Drawings:
    """Replaces the drawing: counts the calls, and lets a test wait for the next one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.drawn = threading.Semaphore(0)
        monkeypatch.setattr(curves_process, "draw", self.draw)

    def draw(self, run: RunReader) -> None:
        self.count += 1
        self.drawn.release()


def test_it_exits_without_drawing_when_the_learner_has_exited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawings = Drawings(monkeypatch)
    requests, learner = os.pipe()
    os.close(learner)
    serve(tmp_path, requests)
    os.close(requests)
    assert drawings.count == 0


def test_it_pauses_between_drawings_but_not_before_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawings = Drawings(monkeypatch)
    monkeypatch.setattr(curves_process, "PAUSE", 1e12)
    requests, learner = os.pipe()
    thread = threading.Thread(target=serve, args=(tmp_path, requests))
    thread.start()
    os.write(learner, NEW_REPORT)
    assert drawings.drawn.acquire()
    for _ in range(5):
        os.write(learner, NEW_REPORT)
    os.write(learner, LAST_REQUEST)
    thread.join()
    os.close(learner)
    os.close(requests)
    assert drawings.count == 2


def test_without_a_new_report_nothing_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawings = Drawings(monkeypatch)
    requests, learner = os.pipe()
    os.write(learner, LAST_REQUEST)
    serve(tmp_path, requests)
    os.close(learner)
    os.close(requests)
    assert drawings.count == 0


def test_a_full_disk_keeps_the_older_drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(curves_process, "write_atomically", full)
    curves_process.draw(RunReader(write_run(tmp_path / "run")))
