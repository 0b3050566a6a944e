"""The process that draws curves.png during a run."""

import os
import signal
import threading
import time
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path

import psutil
import pytest

from reports import run_curves, sinks
from reports.sinks import CurvesSink
from tests.reports.some_run import write_run

PNG = b"\x89PNG"


@pytest.fixture(autouse=True)
def _long_wait_for_the_last_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "LAST_DRAWING_SECONDS", 1000)


def drawers() -> list[psutil.Process]:
    living = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]
    return [p for p in living if p.cmdline()[-1:] == ["curves"]]


def the_drawer() -> psutil.Process:
    """It has no command line for a moment after its start."""
    deadline = time.monotonic() + 60
    while not (found := drawers()) and time.monotonic() < deadline:
        time.sleep(0.001)
    (drawer,) = found
    return drawer


def hurry(drawer: psutil.Process) -> None:
    """On a busy machine, a process of the lowest priority would need minutes."""
    with suppress(psutil.AccessDenied):  # only root may do that
        drawer.nice(0)


@pytest.mark.slow
def test_the_process_draws_a_last_time_and_leaves_nothing_behind(tmp_path: Path) -> None:
    sink = CurvesSink(write_run(tmp_path / "run"))
    sink.write({})
    drawer = the_drawer()
    assert drawer.nice() == 19
    assert os.getpgid(drawer.pid) != os.getpgid(0), "CTRL+C does not reach it"
    hurry(drawer)
    sink.close()
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(PNG)
    assert not drawers() and not list((tmp_path / "run").glob(".*"))


def write_until_it_fails(sink: CurvesSink) -> None:
    while True:
        sink.write({})
        time.sleep(0.02)


@pytest.mark.slow
def test_a_process_that_fails_says_why_and_one_that_hangs_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metrics.jsonl").write_text("{}\n")  # and no config.json
    sink = CurvesSink(tmp_path)
    hurry(the_drawer())
    with pytest.raises(RuntimeError, match=r"^.*config\.json is missing or damaged$"):
        write_until_it_fails(sink)
    sink.close()
    monkeypatch.setattr(sinks, "LAST_DRAWING_SECONDS", 0.1)
    sink = CurvesSink(tmp_path)
    the_drawer().send_signal(signal.SIGSTOP)
    sink.close()
    assert not drawers()


def test_a_run_is_redrawn_when_it_has_new_reports_or_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = threading.Semaphore(0)
    monkeypatch.setattr(run_curves, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(run_curves, "PAUSE", 0)
    monkeypatch.setattr(run_curves, "write_atomically", lambda path, content: drawn.release())
    folder = write_run(tmp_path / "run", range(1000, 1000))
    end, learner = Pipe()
    thread = threading.Thread(target=run_curves.redraw, args=(end, folder))
    thread.start()
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        with (folder / name).open("a") as file:
            file.write('{"agent_steps": 1000}\n')
        assert drawn.acquire()
    assert not drawn.acquire(timeout=0.05), "nothing is new"
    learner.close()
    thread.join()
    end.close()
    assert not drawn.acquire(blocking=False), "nor at the end"


def test_a_full_disk_keeps_the_older_drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(run_curves, "write_atomically", full)
    end, learner = Pipe()
    learner.close()
    run_curves.redraw(end, write_run(tmp_path / "run"))
    end.close()
