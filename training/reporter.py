"""Reports to the sinks, and the state of the run for the console."""

import time
from collections.abc import Mapping, Sequence

from options.learning_options import LOSS_TERMS
from reports.run_display import ReplayFill, Status
from run_files.metrics import Episode, JsonValue, Report, Sink
from training.machine_load import MachineLoad
from training.run import Run

LEARNER_FIGURES = (*LOSS_TERMS, "total_loss", "entropy", "gradient_norm", "learning_rate")
MIN_INTERVAL_SECONDS = 2.0  # until an interval is this long, the display shows the figures of the one before


class Reporter:
    """Writes a report every `--report_period` agent steps, and shows the state of the run on the console."""

    def __init__(self, run: Run, sink: Sink) -> None:
        self._run = run
        self._sink = sink
        self.load = MachineLoad(run.actors.times, run.actors.pool, run.machine.device)
        self._before: Report = {}  # the latest report
        self._learned: Mapping[str, float | None] = {}  # figures of the learner, of the latest interval with an update

    def games_ended(self, episodes: Sequence[Episode]) -> None:
        """Send finished games to the sinks."""
        for episode in episodes:
            self._sink.episode(episode)

    def tick(self) -> None:
        """Update the console if it is due. Called in every iteration of the training loop."""
        now = time.monotonic()
        if self._run.console.due(now):
            self.show()

    def show(self) -> None:
        """Show the state of the run on the console."""
        self._run.console.show(self._status(), time.monotonic())

    @property
    def is_due(self) -> bool:
        """Whether it is time for a report."""
        return self._run.progress.steps_since_report >= self._run.config.report.report_period

    def report(self) -> None:
        """Write one report of the interval since the latest one. With several learners, all call this together."""
        of_batch = list(self._run.progress.interval.learned())
        self._before = report = self._figures()
        self._run.progress.begin_interval()
        self.load.begin_interval()
        self._sink.write(self._run.agreement.merged(report, of_batch, self._run.learner.weights_checksum))

    def _figures(self) -> Report:
        """Everything that is reported, by the names in metrics.jsonl: a new figure of any of these parts is, too."""
        actors, progress = self._run.actors, self._run.progress
        nodes = actors.node_figures()
        return {
            **dict.fromkeys(LEARNER_FIGURES),
            **self._replay_figures(),
            **progress.figures(),
            "rounds_under_way": actors.pool.rounds_under_way,
            "worker_restarts": actors.pool.restarts,
            "failed_resets": actors.pool.failed_resets,
            **self.load.figures(0.0 if nodes else progress.interval_frames_per_second),
            **({"nodes": nodes} if nodes else {}),
        }

    def _replay_figures(self) -> dict[str, JsonValue]:
        """Figures of each replay under its position and type."""
        progress, figures, shares = self._run.progress, {}, {}
        for i, replay in enumerate(self._run.mix.replays):
            name, seconds = f"{i}_{replay.name}", progress.interval.draw_seconds(i)
            figures[name] = {"size": len(replay), **progress.interval.draw_figures(i)}
            if seconds is not None:
                shares[name] = seconds / progress.interval_seconds
        return {"replays": figures, "replay_time_shares": shares}

    def _status(self) -> Status:
        progress, mix, pool, figures = self._run.progress, self._run.mix, self._run.actors.pool, self._figures()
        self._learned = progress.interval.learned() or self._learned
        if self._before and progress.interval_seconds < MIN_INTERVAL_SECONDS:
            figures = {**self._before, **progress.counters()}
        in_no_report = {
            "max_steps": progress.max_steps,
            "planned_updates": self._run.resume.planned_updates,
            "return_window": progress.return_window,
            "return_last": progress.recent_returns[-1] if progress.recent_returns else None,
            "speed": progress.recent_speed(),  # agent steps a second in the latest seconds
            "frames_per_step": progress.frames_per_step,  # in this run; those that it was resumed from may differ
            "workers_alive": pool.alive,
            "worker_count": pool.size,
        }
        return Status(
            figures={**figures, **self._learned, **in_no_report},
            replays=[
                ReplayFill(replay.name, len(replay), replay.capacity, replay.share, fill)
                for replay, fill in zip(mix.replays, self._run.part.replay.warmup_unrolls, strict=True)
            ],
            is_warming_up=mix.is_warming_up,
            starting=progress.agent_steps == progress.parent_steps,
        )
