"""The sinks of a run: what they receive. A failing sink is announced and does not end the run."""

import importlib.metadata
import io
import re
import socket
import subprocess
import sys
import threading
import types
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from option_flags import Config, ReportOptions
from options.rules import UsageError
from reports.sinks import GuardedSink, SinkList, check_sinks, make_sinks
from reports.trackers import PrometheusSink, gif_of, tag_of
from run_files.metrics import Episode, Report
from tests.ports import free_ports
from tests.reports.some_run import report

EPISODE = Episode(100, 2.0, 90, 0)


def config(**flags: Any) -> Config:
    return Config.from_flags({"curves": False, **flags})


# --- Making sinks -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_learner_imports_no_optional_package() -> None:
    """And it does not import matplotlib, which only the process that draws curves.png imports."""
    program = "import sys, training.train; print(*{name.partition('.')[0] for name in sys.modules})"
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    loaded = set(result.stdout.split())
    assert {"torch", "cv2"} <= loaded
    assert not loaded & {"matplotlib", "tensorboard", "wandb", "onnx", "PIL"}


def without(package: str) -> Callable[[str], str]:
    """The versions of installed packages, where this one is not installed."""

    def version(name: str) -> str:
        if name == package:
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.0"

    return version


@pytest.mark.parametrize("package", ["tensorboard", "wandb"])
def test_a_missing_package_is_reported_in_one_sentence(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", without(package))
    with pytest.raises(UsageError) as caught:
        check_sinks(config(**{package: True}).report)
    assert str(caught.value) == f"--{package} needs the package {package}; run pip install {package}."


def test_a_taken_port_and_a_wrong_host_are_reported_in_one_sentence() -> None:
    check_sinks(ReportOptions())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"--metrics_port={port} .*already in use.* choose a free port, .*\.$"):
            check_sinks(config(metrics_port=port).report)
    for host in ("no.such.host.invalid", "192.0.2.1", "a..b"):  # the second is reserved for documentation
        with pytest.raises(UsageError, match=f"--metrics_host={re.escape(host)} cannot be opened .*an address of this"):
            check_sinks(config(metrics_port=free_ports(1)[0], metrics_host=host).report)


def test_the_files_of_a_run_are_always_written(tmp_path: Path) -> None:
    sink = make_sinks(config(), tmp_path, lambda sentence: None)
    sink.write(report(1000, 1.0))
    sink.episode(EPISODE)
    sink.close()
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.jsonl", "episodes.csv"}


# --- A sink that fails ------------------------------------------------------------------------------------------------


class Failing(SinkList):
    def __init__(self) -> None:
        super().__init__()
        self.calls = self.closed = 0

    def write(self, report: Report) -> None:
        self.calls += 1
        raise RuntimeError("no\nconnection")

    def close(self) -> None:
        self.closed += 1
        raise RuntimeError("still no connection")


def test_a_sink_that_fails_is_announced_once_and_tried_again() -> None:
    messages: list[str] = []
    failing = Failing()
    sink = GuardedSink("--name", lambda: failing, messages.append)
    for _ in range(3):
        sink.write({})
        sink.episode(EPISODE)
    sink.close()
    assert (failing.calls, failing.closed) == (3, 1)
    assert messages == [
        "--name cannot be written (no); training continues",
        "--name cannot be written (still no connection); training continues",
    ]


def test_a_sink_that_cannot_be_made_is_announced_too() -> None:
    def make() -> SinkList:
        raise ValueError

    messages: list[str] = []
    sink = GuardedSink("--name", make, messages.append)
    sink.write({})
    sink.close()
    assert messages == ["--name cannot be written (ValueError); training continues"]


# --- Prometheus -------------------------------------------------------------------------------------------------------


def read(address: str) -> tuple[str, dict[str, float | str]]:
    """The content type, and the lines without comments as names and values."""
    with urllib.request.urlopen(address, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
        assert [line for line in lines if line.startswith("# TYPE")] == [
            f"# TYPE {re.split('[{ ]', line)[0]} gauge" for line in lines if not line.startswith("#")
        ]
        return answer.headers["Content-Type"], dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_prometheus_gets_the_newest_report() -> None:
    (port,) = free_ports(1)
    threads = threading.active_count()
    sink = PrometheusSink(Path('a"b'), config(metrics_port=port, run_name="first-try", tags="paper,new"))
    address = f"http://127.0.0.1:{port}/metrics"
    labels = 'env="PongNoFrameskip-v4",name="first-try",run="a\\"b",tags="paper,new"'
    info = {f"rl_run_info{{{labels}}}": "1.0"}
    kind, numbers = read(address)
    assert kind.startswith("text/plain; version=")
    assert numbers == info
    sink.write({"agent_steps": 5, "kl": None, "replays": [{"name": "queue", "size": 2}], "nan": float("nan")})
    sink.episode(EPISODE)
    assert read(address)[1] == info | {"rl_agent_steps": "5.0", "rl_replays_0_queue_size": "2.0"}
    with socket.create_connection(("127.0.0.1", port)):  # a client that sends nothing does not delay the end
        sink.close()
    assert threading.active_count() <= threads + 1
    check_sinks(config(metrics_port=port).report)


def test_prometheus_gets_the_figures_of_nodes_until_they_vanish() -> None:
    (port,) = free_ports(1)
    sink = PrometheusSink(Path("run"), config(metrics_port=port))
    first: Report = {"node": "one", "alive": True, "workers": 4, "unrolls_refused": 7, "round_trip_ms": 1.5}
    second: Report = {"node": 'two "b"', "alive": False, "workers": 2, "unrolls_refused": 0, "round_trip_ms": None}
    sink.write({"agent_steps": 5, "nodes": [first, second]})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    assert [line for line in lines if line.startswith(("rl_node", "# TYPE rl_node"))] == [
        "# TYPE rl_node_alive gauge",
        'rl_node_alive{node="one"} 1.0',
        'rl_node_alive{node="two \\"b\\""} 0.0',
        "# TYPE rl_node_workers gauge",
        'rl_node_workers{node="one"} 4.0',
        'rl_node_workers{node="two \\"b\\""} 2.0',
        "# TYPE rl_node_unrolls_refused_total counter",
        'rl_node_unrolls_refused_total{node="one"} 7.0',
        'rl_node_unrolls_refused_total{node="two \\"b\\""} 0.0',
        "# TYPE rl_node_round_trip_ms gauge",
        'rl_node_round_trip_ms{node="one"} 1.5',
    ]
    sink.write({"agent_steps": 6, "nodes": [second]})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    sink.close()
    assert 'node="one"' not in text and "rl_node_workers{" in text and "rl_agent_steps 6.0" in text


# --- Weights & Biases -------------------------------------------------------------------------------------------------


class FakeRun:
    def __init__(self) -> None:
        self.logged: list[tuple[dict[str, Any], int]] = []
        self.finished = False

    def log(self, numbers: dict[str, Any], step: int) -> None:
        self.logged.append((numbers, step))

    def finish(self) -> None:
        self.finished = True


@pytest.mark.parametrize("name", [None, "a name"])
def test_weights_and_biases_gets_numbers_and_videos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    monkeypatch.delenv("WANDB_NAME", raising=False)
    if name is not None:
        monkeypatch.setenv("WANDB_NAME", name)
    run = FakeRun()
    given: dict[str, Any] = {}
    fake: Any = types.ModuleType("wandb")
    fake.init = lambda **words: given.update(words) or run
    fake.Video = lambda path: f"video {Path(path).name}"
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr(importlib.metadata, "version", without("another"))
    options = config(wandb=True, wandb_project="mine", seed=3, tags="baseline,paper")
    check_sinks(options.report)
    folder = tmp_path / "Pong_1"
    (folder / "videos").mkdir(parents=True)
    sink = make_sinks(options, folder, print)
    sink.write(report(2000, 1.5))
    sink.episode(EPISODE)
    (folder / "videos" / "evaluation_2000.mp4").touch()
    sink.close()
    assert (given["project"], given["name"], given["dir"]) == ("mine", name or "Pong_1", str(folder))
    assert given["resume"] == "allow", "with WANDB_RUN_ID, a resumed run extends the curves that exist"
    assert given["config"]["seed"] == 3 and given["tags"] == ["baseline", "paper"]
    (numbers, step), last = run.logged
    assert step == 2000 and numbers["time_shares/update"] == 0.9 and "kl_replayed" not in numbers
    assert last == ({"videos/evaluation_2000": "video evaluation_2000.mp4"}, 2000)
    assert run.finished


# --- TensorBoard ------------------------------------------------------------------------------------------------------


def write_video(path: Path, frames: int = 60, size: tuple[int, int] = (320, 210), rate: float = 60.0) -> None:
    path.parent.mkdir(exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), rate, size)
    for number in range(frames):
        frame = np.zeros((size[1], size[0], 3), np.uint8)
        cv2.circle(frame, (10 + 4 * number, 100), 9, (0, 0, 255), -1)
        writer.write(frame)
    writer.release()


def test_a_video_becomes_a_small_gif(tmp_path: Path) -> None:
    path = tmp_path / "game.mp4"
    write_video(path)
    gif = gif_of(path)
    with Image.open(io.BytesIO(gif)) as picture:
        assert picture.size == (240, 158)
        red = picture.convert("RGB").getpixel((round(10 * 0.75), 75))
        assert isinstance(red, tuple) and red[0] > 200 and red[2] < 60
    assert len(gif) < 100_000


@pytest.mark.parametrize(
    ("frames", "rate", "pictures", "duration"), [(60, 60.0, 10, 100), (100, 4.0, 80, 250), (20, 15.0, 10, 130)]
)
def test_a_gif_is_as_fast_as_its_video_and_has_its_first_20_seconds(
    tmp_path: Path, frames: int, rate: float, pictures: int, duration: int
) -> None:
    """As fast as a GIF can be: the time of a picture is a whole number of hundredths of a second."""
    path = tmp_path / "game.mp4"
    write_video(path, frames, rate=rate)
    with Image.open(io.BytesIO(gif_of(path))) as picture:
        assert picture.n_frames == pictures  # type: ignore[attr-defined]
        assert picture.info["duration"] == pytest.approx(duration, abs=10)


def test_tensorboard_tags_are_grouped() -> None:
    names = ["episodes", "value_loss", "policy_loss", "policy_lag_max", "updates", "frames_per_second", "cpu_learner"]
    assert [tag_of(name).partition("/")[0] for name in names] == [
        *["games", "losses", "losses", "policy", "progress", "progress", "machine"]
    ]
    assert tag_of("time_shares/update") == "time_shares/update"


def test_tensorboard_gets_numbers_new_videos_and_hyperparameters(tmp_path: Path) -> None:
    options = config(tensorboard=True)
    check_sinks(options.report)
    messages: list[str] = []
    sink = make_sinks(options, tmp_path, messages.append)
    sink.write(report(1000, 1.0))
    write_video(tmp_path / "videos" / "best.mp4")
    sink.write(report(2000, 2.0))
    sink.write(report(3000, 3.0))
    sink.episode(EPISODE)
    sink.close()
    assert not messages
    scalars: dict[str, list[tuple[int, float]]] = {}
    pictures, plugins = [], set()
    for path in (tmp_path / "tensorboard").iterdir():
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                plugin = value.metadata.plugin_data.plugin_name
                plugins.add(plugin)
                if plugin == "images":
                    pictures.append((value.tag, event.step, value.tensor.string_val[2][:4]))
                elif plugin == "scalars":
                    scalars.setdefault(value.tag, []).append((event.step, value.tensor.float_val[0]))
    assert scalars["games/return_mean"] == [(2000, 2.0), (3000, 3.0)]
    assert [step for step, _ in scalars["time_shares/wait"]] == [1000, 2000, 3000]
    assert pictures == [("videos/best", 2000, b"GIF8")]
    assert "hparams" in plugins and scalars["hparam/return_mean"] == [(3000, 3.0)]
