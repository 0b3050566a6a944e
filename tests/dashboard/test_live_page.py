"""The page of a run in a real browser while the run trains and its agent plays."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.dashboard.browser import ROOT, Visitor, need_browser, serving, visiting

need_browser()
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # on a busy machine, every page takes seconds

RETURNS, ENTROPY = "Return of full games", "Entropy of the policy, nats"


@pytest.fixture
def training(tmp_path: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """Training of Pong that writes a report and a checkpoint every second or so."""
    words = ["--worker_count=1", "--envs_per_worker=4", "--report_period=400", "--save_model_period=4", "--console=off"]
    words += ["--nocurves", "--environment_max_steps=1000000", f"--results_dir={tmp_path}", "--keep_checkpoints=2"]
    command = [sys.executable, str(ROOT / "main.py"), "--op_mode=train", "--env=PongNoFrameskip-v4", *words]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        yield process
        process.terminate()
        process.wait(60)


def live_games() -> list[psutil.Process]:
    """The processes of the dashboard's live games: the only ones of the lowest priority that are spawned."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            if "processes.inside" in " ".join(child.cmdline()) and child.nice() == 19:
                found.append(child)
    return found


def test_a_run_is_watched_while_it_trains(browser: Any, tmp_path: Path, training: "subprocess.Popen[bytes]") -> None:
    with serving(tmp_path) as address, visiting(browser, address) as visitor:
        watch(visitor, training)


def watch(visitor: Visitor, training: "subprocess.Popen[bytes]") -> None:
    page = visitor.open("/")
    link = page.locator("tbody a")
    link.wait_for(timeout=90_000)  # of the list, which was open before the run began
    page.locator(".state-work").wait_for()
    link.click()
    first = len(visitor.wait_for_chart(ENTROPY)[0])
    visitor.wait_until(lambda: len(visitor.chart(ENTROPY)[0]) >= first + 3)

    page.get_by_role("tab", name="Agent").click()
    page.get_by_role("button", name="Play").click()
    page.wait_for_selector("img.screen[src^=data]", timeout=120_000)
    seen: set[str] = set()

    def moves() -> bool:
        seen.add(page.locator("img.screen").get_attribute("src"))
        return len(seen) >= 10

    visitor.wait_until(moves)
    assert page.locator(".bars .fill").count() == 6
    assert len(live_games()) == 1
    assert training.poll() is None
    training.terminate()
    page.get_by_text("stopped", exact=True).wait_for()
    page.get_by_text("saliency").click()
    page.wait_for_selector("img[alt=saliency][src^=data]")
    page.get_by_role("tab", name="Console").click()
    page.get_by_text("updates planned").wait_for()
    page.goto("about:blank")
    visitor.wait_until(lambda: not live_games())
