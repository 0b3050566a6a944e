"""The live display of a run at one moment as a picture, made from the run's files, in the colours of a terminal."""

import io
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import torch
from rich.console import Console
from rich.text import Text

from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from machine.machine_setup import Machine
from option_flags import OPTIONS, Config
from reports.console import LiveConsole
from reports.run_display import ReplayFill, Status
from reports.run_header import run_header
from run_files.metrics import METRICS
from run_files.run_folder import CONFIG
from run_files.run_reader import read_history
from tests.reports.rendering import REPOSITION
from training.train import network_in_words
from wrappers.atari import make_atari

WIDTH, HEIGHT = 120, 50  # of the display, in characters
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


def console_svg(run: Path, seconds: float) -> bytes:
    """What stands on the terminal at the first report after so many seconds of the run, as an SVG."""
    content = json.loads((run / CONFIG).read_text(encoding="utf-8"))
    config = Config.from_flags({name: value for name, value in content["options"].items() if name in OPTIONS})
    games = read_history(run).games
    returns = list(zip(games.x.tolist(), games.y.tolist(), strict=True))
    reports = [json.loads(line) for line in (run / METRICS).read_text(encoding="utf-8").splitlines()]
    stream = io.StringIO()
    with mock.patch.dict(os.environ, {"TERM": "xterm", "COLUMNS": str(WIDTH + 1), "LINES": str(HEIGHT)}):
        os.environ.pop("NO_COLOR", None)
        console = LiveConsole(stream)
        console.start(_header(config, content, run))
        for second, report in enumerate(reports):
            console.show(_status(config, content, report, returns), float(second))
            if report["seconds"] >= seconds:
                break
        console.close([])
    return draw(stream.getvalue(), "python main.py --op_mode=train --stop_at_return=18")


def _header(config: Config, content: dict[str, Any], run: Path) -> list[str]:
    known: dict[str, Any] = content["machine"]
    precisions = {name: getattr(torch, known[name]) for name in ("precision", "worker_precision")}
    machine = Machine(
        device=torch.device(known["device"]),
        **precisions,
        worker_count=known["worker_count"],
        slots_per_worker=known["slots_per_worker"],
        learner_threads=known["learner_threads"],
    )
    layout = make_unroll_layout(config, make_atari)
    network = network_in_words(ActorCritic(config.network, layout))
    return run_header(config, Path("results", run.name), machine, layout, network, content["planned_updates"])


def _status(
    config: Config, content: dict[str, Any], report: dict[str, Any], returns: Sequence[tuple[float, float]]
) -> Status:
    """The state of the run at a report; `returns` are the agent steps at the end of each game, and its return."""
    replay, workers = config.replay, content["machine"]["worker_count"]
    last = [value for steps, value in returns if steps <= report["agent_steps"]][-1:]
    sizes = [figures["size"] for figures in report["replays"].values()]
    fills = zip(replay.replays, sizes, replay.shares, replay.warmup_unrolls, strict=True)
    return Status(
        figures={
            **report,
            "max_steps": config.run.environment_max_steps,
            "planned_updates": content["planned_updates"],
            "return_window": config.report.avg_buff_size,
            "return_last": last[0] if last else None,
            "speed": report["steps_per_second"],
            "frames_per_step": config.environment.frames_per_step,
            "workers_alive": workers,
            "worker_count": workers,
        },
        replays=[ReplayFill(each.type, size, each.capacity, share, needed) for each, size, share, needed in fills],
    )


def draw(written: str, title: str) -> bytes:
    """The lines before the first display, and the last display, as an SVG."""
    header = written.partition(HIDE_CURSOR)[0]
    last_display = REPOSITION.split(written)[-1].partition(SHOW_CURSOR)[0]
    shown = re.sub(r"\x1b\[\?\d+[hl]", "", header + last_display).rstrip()
    console = Console(file=io.StringIO(), width=WIDTH, record=True, force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(shown))
    return console.export_svg(title=title, unique_id="console").encode()


def words_of(svg: str) -> list[str]:
    """What is written in the picture."""
    return [text.replace("\xa0", " ").strip() for text in ElementTree.fromstring(svg).itertext() if text.strip()]
