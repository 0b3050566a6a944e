"""Reports to the sinks, and the state of the run for the console."""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from machine.cpu_energy import CpuEnergy
from machine.gpu_gauge import GpuGauge
from reports.sinks.sink import Sink
from reports.terminal.run_display import ReplayFill, Status
from run_files.metrics import LOSS_TERMS, Episode, JsonValue
from training.counters.machine_load import Load, MachineLoad
from training.run import Run

LEARNER_FIGURES = (*LOSS_TERMS, "total_loss", "entropy", "gradient_norm", "learning_rate")
COST = "core_seconds_per_1000_frames"
MIN_INTERVAL_SECONDS = 2.0  # until an interval is this long, the display shows the figures of the one before


class _IntervalFigures(NamedTuple):
    """What the display shows of an interval."""

    learner: Mapping[str, float | None]  # of the latest interval that had an update
    lag: float | None
    wait_fraction: float
    load: Load
    action_timing: Mapping[str, float | None]  # in a game that does not wait


class Reporter:
    """Writes a report every `--report_period` agent steps, and shows the state of the run on the console."""

    def __init__(self, run: Run, sink: Sink) -> None:
        self._run = run
        self._agreement, self._progress, self._mix = run.agreement, run.progress, run.mix
        self._steps_at_start = run.progress.agent_steps  # steps of the parent
        self._actors, self._pool = run.actors, run.actors.pool
        self.load = MachineLoad(
            run.actors.times, self._pool, GpuGauge(run.machine.device), CpuEnergy(), run.progress.watt_hours
        )
        self._sink = sink
        self._console = run.console
        self._before: _IntervalFigures | None = None  # of the interval before the latest report

    def after_unroll(self, episodes: Sequence[Episode]) -> None:
        """Send the games that ended in an unroll to the sinks. During warm-up, reports are written after unrolls.

        Otherwise they are written after updates, so that their steps do not depend on how many unrolls arrive at once.
        With several learners, only updates are made together, so there are no reports during warm-up.
        """
        self.games_ended(episodes)
        if self._mix.is_warming_up and self._agreement.alone and self.is_due:
            self.report()

    def games_ended(self, episodes: Sequence[Episode]) -> None:
        """Send finished games to the sinks."""
        for episode in episodes:
            self._sink.episode(episode)

    def tick(self) -> None:
        """Update the console if it is due. Called in every iteration of the training loop."""
        now = time.monotonic()
        self.load.tick(now)
        if self._console.due(now):
            self.show()

    def show(self) -> None:
        """Show the state of the run on the console."""
        self._console.show(self._status(), time.monotonic())

    def line(self) -> str:
        """The state of the run in one line."""
        return self._status().line()

    @property
    def is_due(self) -> bool:
        """Whether it is time for a report."""
        return self._progress.steps_since_report >= self._run.config.report.report_period

    def report(self) -> None:
        """Write one report of the interval since the latest one. With several learners, all call this together."""
        self._before = self._interval_figures()
        speed = self._progress.interval_frames_per_second
        report: dict[str, JsonValue] = dict.fromkeys(LEARNER_FIGURES)
        report |= self._replay_figures()
        of_batch = list(self._progress.interval.figures())
        report |= self._progress.close_interval()
        report["batch_parts"] = self._run.learner.batch_parts
        report["rounds_under_way"] = self._pool.rounds_under_way
        report["worker_restarts"] = self._pool.restarts
        load = self.load.report()
        report[COST] = self._core_seconds(load, speed)
        figures = load._asdict()
        report |= figures.pop("energy")
        report |= figures
        if nodes := self._actors.node_figures():
            report["nodes"] = nodes
        self._sink.write(self._agreement.merged(report, of_batch))

    def _replay_figures(self) -> dict[str, JsonValue]:
        """Figures of each replay under its position and type."""
        draws, replays = self._progress.interval.draws, self._mix.replays
        names = [f"{i}_{replay.name}" for i, replay in enumerate(replays)]
        figures = draws.figures() or [{} for _ in replays]
        sizes = [{"size": len(replay)} for replay in replays]
        shares = [seconds / self._progress.interval_seconds for seconds in draws.seconds()]
        return {
            "replays": {name: size | figure for name, size, figure in zip(names, sizes, figures, strict=True)},
            "replay_time_shares": dict(zip(names, shares, strict=False)),
        }

    def _interval_figures(self) -> _IntervalFigures:
        """Figures since the latest report."""
        interval, before = self._progress.interval, self._before
        learner = interval.figures() or (before.learner if before else {})
        timing, load = self._progress.action_timing, self.load.load()
        figures: dict[str, float | None] = {}
        if timing is not None:
            figures = timing.figures()
            figures[COST] = self._core_seconds(load, self._progress.interval_frames_per_second)
            figures["updates_per_second"] = self._progress.interval_updates_per_second
        return _IntervalFigures(
            learner,
            interval.lag()[0],
            self._progress.wait_fraction(),
            load,
            figures,
        )

    def _status(self) -> Status:
        progress, before = self._progress, self._before
        too_short = progress.interval_seconds < MIN_INTERVAL_SECONDS
        figures, lag, wait_fraction, load, timing = before if before and too_short else self._interval_figures()
        return Status(
            agent_steps=progress.agent_steps,
            max_steps=progress.max_steps,
            frames=progress.frames,
            frames_per_step=progress.frames_per_step,
            updates=progress.updates,
            planned_updates=self._run.resume.planned_updates,
            seconds=progress.seconds,
            steps_per_second=progress.recent_speed(),
            episodes=progress.episodes,
            return_mean=progress.return_mean,
            return_window=progress.return_window,
            return_last=progress.recent_returns[-1] if progress.recent_returns else None,
            return_max=progress.return_max,
            policy_loss=figures.get("policy_loss"),
            value_loss=figures.get("value_loss"),
            entropy=figures.get("entropy"),
            gradient_norm=figures.get("gradient_norm"),
            learning_rate=figures.get("learning_rate"),
            policy_lag_mean=lag,
            replays=[
                ReplayFill(replay.name, len(replay), replay.capacity, replay.share, fill)
                for replay, fill in zip(self._mix.replays, self._run.part.replay.warmup_unrolls, strict=True)
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
            action_timing=timing,
            clipped_share=figures.get("clipped_share"),
            nodes=self._actors.node_figures(),
        )

    def _core_seconds(self, load: Load, frames_per_second: float) -> float | None:
        """Those of the learner and of the workers, for 1,000 game frames; None if other machines have played, too."""
        if self._actors.node_figures():
            return None
        return 10 * (load.cpu_learner + load.cpu_workers) / frames_per_second if frames_per_second else None
