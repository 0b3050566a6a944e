"""Reports to TensorBoard, Weights & Biases and Prometheus. Imported only with their flags: not all are installed."""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from io import BytesIO
from itertools import islice
from pathlib import Path

import av
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from option_flags import Config
from run_files.metrics import Report, Sink, flat_numbers
from run_files.run_folder import VIDEOS

# --- TensorBoard and Weights & Biases ---------------------------------------------------------------------------------

TENSORBOARD_FOLDER = "tensorboard"
# TensorBoard groups tags by the word before the slash. A name without one gets the first group whose pattern matches.
GROUPS = {
    "games": ("return_*", "episodes"),
    "losses": ("*_loss", "gradient_norm", "learning_rate"),
    "policy": ("entropy", "policy_*", "kl_*", "ratio_*", "value_mean", "dropped_*"),
    "progress": ("agent_steps", "frames", "updates", "time", "seconds", "*_per_second", "learner_wait_fraction"),
    "machine": ("*",),
}
# Of the animations of videos.
GIF_RATE = 10  # pictures a second, or fewer
GIF_SECONDS = 20.0  # longest part of the video, from its beginning
GIF_WIDTH = 240  # at most


class _WithVideos(Sink):
    """A sink that gets the numbers of each report, and each video of the run once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sent: set[Path] = set()
        self._numbers: dict[str, float] = {}  # of the newest report

    @property
    def _steps(self) -> int:
        return int(self._numbers.get("agent_steps", 0))

    def write(self, report: Report) -> None:
        self._numbers = flat_numbers(report)

    def _new_videos(self) -> list[Path]:
        """Videos are written atomically."""
        new = sorted(set((self._folder / VIDEOS).glob("*.mp4")) - self._sent)
        self._sent.update(new)
        return new


class TensorBoardSink(_WithVideos):
    """Writes all numbers of the reports as scalars, and each new video of the run as an animated picture.

    At the end, the options and the mean return go to TensorBoard's page of hyperparameters.
    """

    def __init__(self, folder: Path, config: Config) -> None:
        super().__init__(folder)
        from torch.utils.tensorboard import SummaryWriter

        self._options = config.flags()
        self._films = ThreadPoolExecutor(1)  # converting a film takes as long as hundreds of updates
        self._writer = SummaryWriter(str(folder / TENSORBOARD_FOLDER))
        rows = "".join(f"| {name} | {value} |\n" for name, value in self._options.items())
        self._writer.add_text("options", f"| option | value |\n|---|---|\n{rows}")

    def write(self, report: Report) -> None:
        super().write(report)
        for name, value in self._numbers.items():
            self._writer.add_scalar(tag_of(name), value, self._steps, self._numbers.get("time"))
        self._show_videos()
        self._writer.flush()

    def close(self) -> None:
        self._show_videos()  # those since the last report
        self._films.shutdown()  # when all are converted
        if "return_mean" in self._numbers:  # beside the curves, not in a run of its own
            options = {name: value for name, value in self._options.items() if value is not None}
            result = {"hparam/return_mean": self._numbers["return_mean"]}
            self._writer.add_hparams(options, result, None, ".", self._steps)
        self._writer.close()

    def _show_videos(self) -> None:
        for path in self._new_videos():
            self._films.submit(self._show_video, path, self._steps)

    def _show_video(self, path: Path, steps: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        image = Summary.Image(encoded_image_string=gif_of(path))
        summary = Summary(value=[Summary.Value(tag=f"videos/{path.stem}", image=image)])
        self._writer.file_writer.add_summary(summary, steps)  # type: ignore[attr-defined]


class WandbSink(_WithVideos):
    """Logs numbers and videos of a run, by default under the name of its folder.

    W&B reads its own environment variables, such as WANDB_ENTITY, WANDB_RUN_GROUP and WANDB_MODE.
    """

    def __init__(self, folder: Path, config: Config) -> None:
        super().__init__(folder)
        import wandb

        self._video = wandb.Video
        tags = config.run.tags
        self._run = wandb.init(
            project=config.report.wandb_project,
            name=os.environ.get("WANDB_NAME", folder.name),
            dir=str(folder),
            config=config.flags(),
            tags=tags.split(",") if tags else None,
            resume="allow",  # with WANDB_RUN_ID set, a resumed run continues the existing curves
        )

    def write(self, report: Report) -> None:
        super().write(report)
        self._log(self._numbers)

    def close(self) -> None:
        self._log({})  # videos since the last report
        self._run.finish()

    def _log(self, numbers: Mapping[str, float]) -> None:
        videos = {f"videos/{path.stem}": self._video(str(path)) for path in self._new_videos()}
        if numbers or videos:
            self._run.log({**numbers, **videos}, step=self._steps)


def tag_of(name: str) -> str:
    """The tag of a flat name: `value_loss` becomes `losses/value_loss`; `time_shares/update` stays as it is."""
    if "/" in name:
        return name
    return next(f"{group}/{name}" for group, patterns in GROUPS.items() if any(fnmatchcase(name, p) for p in patterns))


def gif_of(path: Path) -> bytes:
    """The beginning of a video as a small animation at a low rate."""
    with av.open(path) as video:
        rate = float(video.streams.video[0].average_rate or 60)
        step = math.ceil(rate / GIF_RATE)
        pictures = []
        for frame in islice(video.decode(video=0), 0, math.ceil(GIF_SECONDS * rate), step):
            width = min(GIF_WIDTH, frame.width)
            height = round(frame.height * width / frame.width)
            pictures.append(frame.to_image(width=width, height=height))  # type: ignore[no-untyped-call]
    buffer = BytesIO()
    pictures[0].save(
        buffer, "GIF", save_all=True, append_images=pictures[1:], duration=round(1000 * step / rate), loop=0
    )
    return buffer.getvalue()


# --- Prometheus -------------------------------------------------------------------------------------------------------

PREFIX = "rl_"
NODES, NODE_NAME = "nodes", "node"  # in a report: a list of the nodes of a cluster, and the key of a node's name
NODE_COUNTERS = {"agent_steps", "unrolls_accepted", "unrolls_refused", "restarts"}  # figures that only grow


class PrometheusSink(Sink):
    """Serves the newest report at http://<host>:<port>/metrics, from a thread of its own: one gauge for each number.

    The figures of the nodes of a cluster have the label `node`. Those of a node that is no longer in the newest report
    are no longer served.
    """

    def __init__(self, folder: Path, config: Config) -> None:
        name, tags = config.run.run_name, config.run.tags
        self._run = {"run": folder.name, "env": config.environment.env, "name": name or "", "tags": tags or ""}
        self._report: Report = {}
        registry = CollectorRegistry()
        registry.register(self)
        address = config.report.metrics_port, config.report.metrics_host
        self._server, self._thread = start_http_server(*address, registry)

    def collect(self) -> Iterator[Metric]:
        """Called at each request: `time_shares/update` becomes the gauge `rl_time_shares_update`."""
        report = self._report
        yield InfoMetricFamily(PREFIX + "run", "The run, its environment, its name and its tags.", self._run)
        for name, value in flat_numbers({name: value for name, value in report.items() if name != NODES}).items():
            yield GaugeMetricFamily(_metric(name), f"{name} of the newest report.", value)
        listed = report.get(NODES)
        nodes = [node for node in listed if isinstance(node, Mapping)] if isinstance(listed, Sequence) else []
        for name in dict.fromkeys(name for node in nodes for name in flat_numbers(node)):
            # `unrolls_refused` of a node becomes the counter `rl_node_unrolls_refused_total`, `workers` a gauge.
            family = CounterMetricFamily if name in NODE_COUNTERS else GaugeMetricFamily
            metric = family(_metric(f"node_{name}"), f"{name} of a node.", labels=[NODE_NAME])
            for node in nodes:
                if name in flat_numbers(node):
                    metric.add_metric([str(node[NODE_NAME])], flat_numbers(node)[name])
            yield metric

    def write(self, report: Report) -> None:
        self._report = report

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _metric(name: str) -> str:
    return PREFIX + re.sub("[^a-zA-Z0-9_]", "_", name)
