"""What a run tells while it goes: the one place that writes reports."""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from replay.mix import Batch, Mix
from replay.unroll_layout import Rows
from reports.console import Console
from reports.run_display import ReplayFill, Status
from reports.sinks import Sink
from run_files.metrics import JsonValue
from training.machine_load import Hardware, Load
from training.progress import Progress
from workers.worker_pool import WorkerPool

LEARNER_FIGURES = (
    "policy_loss",
    "value_loss",
    "entropy_loss",
    "proximal_loss",
    "policy_cloning_loss",
    "value_cloning_loss",
    "total_loss",
    "entropy",
    "gradient_norm",
    "learning_rate",
)
SHORTEST_STRETCH = 2.0  # seconds since a report until the display trusts what happened since then


class _Stretch(NamedTuple):
    """What the display tells of the time since a report."""

    learned: Mapping[str, float | None]  # of the latest stretch that had an update
    lag: float | None
    wait_fraction: float
    load: Load


class Reporter:
    """A report to the sinks every `period` agent steps, and the state of things to the console when it asks."""

    def __init__(
        self,
        progress: Progress,
        pool: WorkerPool,
        hardware: Hardware,
        mix: Mix,
        sink: Sink,
        console: Console,
        *,
        period: int,
        planned_updates: int,
        warmup_unrolls: Sequence[int],  # unrolls that each replay holds before learning starts
    ) -> None:
        self._progress = progress
        self._steps_at_start = progress.agent_steps  # of this run; those it goes on from have made them
        self._pool = pool
        self._hardware = hardware
        self._mix = mix
        self._sink = sink
        self._console = console
        self._period = period
        self._planned_updates = planned_updates
        self._warmup_unrolls = warmup_unrolls
        self._before: _Stretch | None = None  # what was true at the latest report

    def received(self, row: Rows) -> None:
        """Count an unroll."""
        for episode in self._progress.received(row):
            self._sink.episode(episode)
        if self._mix.is_warming_up:
            self._report_if_due()

    def updated(self, batch: Batch, learned: Mapping[str, torch.Tensor]) -> None:
        """Count an update. Reports follow updates, so that they come at the same steps however unrolls are cut up."""
        self._progress.updated(batch, learned)
        self._report_if_due()

    def tick(self) -> None:
        """Show the state of things, if the console is due to."""
        now = time.monotonic()
        self._hardware.tick(now)
        if self._console.due(now):
            self.show()

    def show(self) -> None:
        """Hand the console the state of things."""
        self._console.show(self._status(), time.monotonic())

    def _report_if_due(self) -> None:
        if self._progress.agent_steps - self._progress.steps_at_report >= self._period:
            self.report()

    def report(self) -> None:
        """Write one report of what happened since the last one, if anything did."""
        if not self._progress.anything_new:
            return
        self._before = self._stretch()
        report: dict[str, JsonValue] = dict.fromkeys(LEARNER_FIGURES)
        report |= self._of_replays()
        report |= self._progress.close_stretch()
        report["rounds_under_way"] = self._pool.rounds_under_way
        report["worker_restarts"] = self._pool.restarts
        report |= self._hardware.report()._asdict()
        self._sink.write(report)

    def _of_replays(self) -> dict[str, JsonValue]:
        """By place and name, which tell two replays of one type apart."""
        sums, replays = self._progress.draw_sums, self._mix.replays
        names = [f"{i}_{replay.name}" for i, replay in enumerate(replays)]
        figures = sums.figures() or [{} for _ in replays]
        sizes = [{"size": len(replay)} for replay in replays]
        shares = [seconds / self._progress.stretch_seconds for seconds in sums.seconds()]
        return {
            "replays": {name: size | of_one for name, size, of_one in zip(names, sizes, figures, strict=True)},
            "replay_time_shares": dict(zip(names, shares, strict=False)),
        }

    def _stretch(self) -> _Stretch:
        """Of the time since the latest report."""
        progress, before = self._progress, self._before
        learned = progress.latest() or (before.learned if before else {})
        return _Stretch(learned, progress.lag()[0], progress.wait_fraction(), self._hardware.load())

    def _status(self) -> Status:
        progress, before = self._progress, self._before
        too_short = progress.stretch_seconds < SHORTEST_STRETCH
        learned, lag, wait_fraction, load = before if before and too_short else self._stretch()
        return Status(
            agent_steps=progress.agent_steps,
            max_steps=progress.max_steps,
            frames=progress.frames,
            skipped_frames=progress.skipped_frames,
            updates=progress.updates,
            planned_updates=self._planned_updates,
            seconds=progress.seconds,
            steps_per_second=progress.recent_speed(),
            episodes=progress.episodes,
            return_mean=progress.return_mean,
            return_window=progress.return_window,
            return_last=progress.recent_returns[-1] if progress.recent_returns else None,
            return_max=progress.return_max,
            policy_loss=learned.get("policy_loss"),
            value_loss=learned.get("value_loss"),
            entropy=learned.get("entropy"),
            gradient_norm=learned.get("gradient_norm"),
            learning_rate=learned.get("learning_rate"),
            policy_lag_mean=lag,
            replays=[
                ReplayFill(replay.name, len(replay), replay.capacity, replay.share, fill)
                for replay, fill in zip(self._mix.replays, self._warmup_unrolls, strict=True)
            ],
            is_warming_up=self._mix.is_warming_up,
            learner_wait_fraction=wait_fraction,
            workers_alive=self._pool.alive,
            worker_count=self._pool.size,
            worker_restarts=self._pool.restarts,
            memory_mb=load.memory_learner_mb + load.memory_workers_mb,
            cpu_learner=load.cpu_learner,
            cpu_workers=load.cpu_workers,
            workers_in_games=load.worker_time_shares["environment"],
            gpu_utilization=load.gpu_utilization,
            starting=progress.agent_steps == self._steps_at_start,
        )
