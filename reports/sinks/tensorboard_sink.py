"""Event files for TensorBoard. Imported only with `--tensorboard`: the package is optional."""

import threading
import time
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import SummaryWriter

from reports.sinks.film_gif import gif_of, is_complete
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


class TensorBoardSink:
    """Writes all numbers of the reports as scalars, and each new video of the run as an animated picture."""

    def __init__(self, folder: Path, options: Mapping[str, Any]) -> None:
        self._videos = folder / VIDEOS
        self._shown: set[Path] = set()
        self._conversion: threading.Thread | None = None
        self._steps = 0  # of the newest report
        self._writer = SummaryWriter(str(folder / FOLDER))
        rows = "".join(f"| {name} | {value} |\n" for name, value in options.items())
        self._writer.add_text("options", f"| option | value |\n|---|---|\n{rows}")

    def write(self, report: Report) -> None:
        numbers = flat_numbers(report)
        self._steps, now = int(numbers["agent_steps"]), numbers.get("time")
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
        self._writer.close()

    def _join(self, deadline: float) -> None:
        if self._conversion is not None:
            self._conversion.join(max(0.0, deadline - time.monotonic()))

    def _show_videos(self) -> None:
        """Convert new videos in a thread, because this takes longer than an update. At most one thread runs."""
        if self._conversion is not None and self._conversion.is_alive():
            return
        new = [path for path in sorted(self._videos.glob("*.mp4")) if path not in self._shown and is_complete(path)]
        if new:
            self._shown.update(new)
            self._conversion = threading.Thread(target=self._add, args=(new, self._steps), name="videos", daemon=True)
            self._conversion.start()

    def _add(self, paths: list[Path], steps: int) -> None:
        for path in paths:
            picture = gif_of(path)
            if picture is None:
                continue
            value = Summary.Value(tag=f"videos/{path.stem}", image=Summary.Image(encoded_image_string=picture))
            self._writer._get_file_writer().add_summary(Summary(value=[value]), steps)  # type: ignore[no-untyped-call]


def tag_of(name: str) -> str:
    """The tag of a flat name: `value_loss` becomes `losses/value_loss`; `time_shares/update` stays as it is."""
    if "/" in name:
        return name
    return next(f"{group}/{name}" for group, patterns in GROUPS.items() if any(fnmatchcase(name, p) for p in patterns))
