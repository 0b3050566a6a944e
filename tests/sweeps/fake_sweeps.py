"""Helpers: sweeps whose runs are a small script in place of main.py."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import multi_train

ROOT = Path(__file__).resolve().parents[2]
FAKE = Path(__file__).with_name("fake_main.py")
QUEUE = [{"type": "queue", "capacity": 1, "sample_ratio": 1.0}]


def run_sweep(words: Sequence[str], program: Path = FAKE) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multi_train, "PROGRAM", program)
        return multi_train.main(words)


def command(folder: Path, definition: dict[str, Any], *words: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    path = folder.with_suffix(".json")
    path.write_text(json.dumps(definition))
    return [f"--sweep={path}", f"--sweep_dir={folder}", "--environment_max_steps=1000", *words]


def rows(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "summary.csv").open(newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def statuses(folder: Path) -> list[str]:
    return [row["status"] for row in rows(folder).values()]


def starts(place: Path) -> list[list[str]]:
    return [line.split() for line in (place / "starts.txt").read_text().splitlines()]


def waits(place: Path) -> bool:
    """Whether the run has come to half of its steps."""
    return bool(list(place.glob("Game_*/checkpoints/*.pt")))


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def when(condition: Callable[[], bool], act: Callable[[], None]) -> None:
    """Act in another thread as soon as the condition is true."""

    def wait() -> None:
        wait_until(condition)
        act()

    threading.Thread(target=wait, daemon=True).start()


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 100
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


def start_sweep(words: Sequence[str], program: Path = FAKE) -> subprocess.Popen[bytes]:
    code = f"multi_train.PROGRAM = pathlib.Path({str(program)!r}); multi_train.main({[*words]})"
    return subprocess.Popen(
        [sys.executable, "-c", f"import multi_train, pathlib; {code}"], cwd=ROOT, stdout=subprocess.DEVNULL
    )
