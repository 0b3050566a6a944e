"""Reports to TensorBoard and to Weights & Biases, whose packages are optional: imported only with their flags."""

import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
from PIL import Image

from run_files.metrics import Episode, Report, flat_numbers
from run_files.run_folder import VIDEOS

FOLDER = "tensorboard"
LAST_VIDEO_SECONDS = 10.0  # longest wait for unfinished videos at the end of a run

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
COLOURS = 64
PALETTE_SAMPLES = 16  # pictures that the palette is chosen from


class TensorBoardSink:
    """Writes all numbers of the reports as scalars, and each new video of the run as an animated picture.

    At the end, the options and the mean return go to TensorBoard's page of hyperparameters.
    """

    def __init__(self, folder: Path, options: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._videos = NewVideos(folder)
        self._conversion: threading.Thread | None = None
        self._steps = 0  # of the newest report
        self._mean: float | None = None  # likewise
        self._options = {name: value for name, value in options.items() if isinstance(value, bool | int | float | str)}
        self._writer = SummaryWriter(str(folder / FOLDER))
        rows = "".join(f"| {name} | {value} |\n" for name, value in options.items())
        self._writer.add_text("options", f"| option | value |\n|---|---|\n{rows}")

    def write(self, report: Report) -> None:
        numbers = flat_numbers(report)
        self._steps, now = int(numbers["agent_steps"]), numbers.get("time")
        self._mean = numbers.get("return_mean")
        for name, value in numbers.items():
            self._writer.add_scalar(tag_of(name), value, self._steps, now)
        self._writer.flush()
        self._show_videos()

    def episode(self, row: Episode) -> None:
        pass

    def close(self) -> None:
        deadline = time.monotonic() + LAST_VIDEO_SECONDS
        self._join(deadline)
        self._show_videos()  # videos since the last report
        self._join(deadline)
        if self._mean is not None:  # beside the curves, not in a run of its own
            self._writer.add_hparams(self._options, {"hparam/return_mean": self._mean}, None, ".", self._steps)
        self._writer.close()

    def _join(self, deadline: float) -> None:
        if self._conversion is not None:
            self._conversion.join(max(0.0, deadline - time.monotonic()))

    def _show_videos(self) -> None:
        """Convert new videos in a thread, because this takes longer than an update. At most one thread runs."""
        if self._conversion is not None and self._conversion.is_alive():
            return
        self._conversion = threading.Thread(target=self._add, args=(self._videos.take(), self._steps), daemon=True)
        self._conversion.start()

    def _add(self, paths: list[Path], steps: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        for path in paths:
            image = Summary.Image(encoded_image_string=gif_of(path))
            summary = Summary(value=[Summary.Value(tag=f"videos/{path.stem}", image=image)])
            self._writer._get_file_writer().add_summary(summary, steps)  # type: ignore[no-untyped-call]


class WandbSink:
    """Logs numbers and videos of a run, by default under the name of its folder.

    W&B reads its own environment variables, such as WANDB_ENTITY, WANDB_RUN_GROUP and WANDB_MODE.
    """

    def __init__(self, folder: Path, project: str, options: Mapping[str, Any]) -> None:
        import wandb

        self._video = wandb.Video
        self._videos = NewVideos(folder)
        self._steps = 0  # of the newest report
        # "allow": with WANDB_RUN_ID set, a resumed run continues the existing curves.
        name = os.environ.get("WANDB_NAME", folder.name)
        self._run = wandb.init(
            project=project,
            name=name,
            dir=str(folder),
            config=dict(options),
            tags=str(options["tags"]).split(",") if options["tags"] else None,
            resume="allow",
        )

    def write(self, report: Report) -> None:
        numbers = flat_numbers(report)
        self._steps = int(numbers["agent_steps"])
        self._run.log({**numbers, **self._new_videos()}, step=self._steps)

    def episode(self, row: Episode) -> None:
        pass

    def close(self) -> None:
        if videos := self._new_videos():  # since the last report
            self._run.log(videos, step=self._steps)
        self._run.finish()

    def _new_videos(self) -> dict[str, Any]:
        return {f"videos/{path.stem}": self._video(str(path)) for path in self._videos.take()}


class NewVideos:
    """The videos of a run, each once. They are written atomically."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / VIDEOS
        self._taken: set[Path] = set()

    def take(self) -> list[Path]:
        new = [path for path in sorted(self._folder.glob("*.mp4")) if path not in self._taken]
        self._taken.update(new)
        return new


def tag_of(name: str) -> str:
    """The tag of a flat name: `value_loss` becomes `losses/value_loss`; `time_shares/update` stays as it is."""
    if "/" in name:
        return name
    return next(f"{group}/{name}" for group, patterns in GROUPS.items() if any(fnmatchcase(name, p) for p in patterns))


def gif_of(path: Path) -> bytes:
    """The beginning of a video as a small animation at a low rate."""
    video = cv2.VideoCapture(str(path))
    rate = video.get(cv2.CAP_PROP_FPS) or 60.0
    step = math.ceil(rate / GIF_RATE)
    pictures: list[Image.Image] = []
    for number in range(math.ceil(GIF_SECONDS * rate)):
        if not video.grab():
            break
        if number % step == 0:
            picture = Image.fromarray(cv2.cvtColor(video.retrieve()[1], cv2.COLOR_BGR2RGB))
            picture.thumbnail((GIF_WIDTH, picture.height))
            pictures.append(picture)
    video.release()
    return as_gif(pictures, rate / step)


def as_gif(pictures: Sequence[Image.Image], rate: float) -> bytes:
    """An endless GIF at `rate` pictures a second; one palette for all, so that unchanged pixels take no bytes."""
    samples = pictures[:: -(-len(pictures) // PALETTE_SAMPLES)]
    width, height = pictures[0].size
    stacked = Image.new("RGB", (width, height * len(samples)))
    for place, sample in enumerate(samples):
        stacked.paste(sample, (0, height * place))
    palette = stacked.quantize(COLOURS)
    few = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    buffer = BytesIO()
    few[0].save(buffer, "GIF", save_all=True, append_images=few[1:], duration=round(1000 / rate), loop=0)
    return buffer.getvalue()
