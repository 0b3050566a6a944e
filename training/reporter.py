"""Reports to the sinks, and the state of the run for the console."""

import time
from collections.abc import Mapping, Sequence

from options.learning_options import LOSS_TERMS
from reports.run_display import ReplayFill, Status
from reports.sinks import Sink
from run_files.metrics import Episode, JsonValue, Report
from training.counters.machine_load import MachineLoad
from training.run import Run

LEARNER_FIGURES = (*LOSS_TERMS, "total_loss", "entropy", "gradient_norm", "learning_rate")
MIN_INTERVAL_SECONDS = 2.0  # until an interval is this long, the display shows the figures of the one before


class Reporter:
    """Writes a report every `--report_period` agent steps, and shows the state of the run on the console."""

    def __init__(self, run: Run, sink: Sink) -> None:
        self._run = run
        self._agreement, self._progress, self._mix = run.agreement, run.progress, run.mix
        self._steps_at_start = run.progress.agent_steps  # steps of the parent
        self._actors, self._pool = run.actors, run.actors.pool
        self.load = MachineLoad(run.actors.times, self._pool, run.machine.device)
        self._sink = sink
        self._console = run.console
        self._before: Report = {}  # the latest report
        self._learned: Mapping[str, float | None] = {}  # figures of the learner, of the latest interval with an update

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
        of_batch = list(self._progress.interval.figures())
        self._before = report = self._figures()
        self._progress.begin_interval()
        self.load.begin_interval()
        self._sink.write(self._agreement.merged(report, of_batch))

    def _figures(self) -> Report:
        """Everything that is reported, by the names in metrics.jsonl: a new figure of any of these parts is, too."""
        nodes = self._actors.node_figures()
        return {
            **dict.fromkeys(LEARNER_FIGURES),
            **self._replay_figures(),
            **self._progress.figures(),
            "rounds_under_way": self._pool.rounds_under_way,
            "worker_restarts": self._pool.restarts,
            "failed_resets": self._pool.failed_resets,
            **self._load_figures(other_machines=bool(nodes)),
            **({"nodes": nodes} if nodes else {}),
        }

    def _load_figures(self, other_machines: bool) -> Report:
        """Of this machine. What a frame costs is not known if other machines have played, too."""
        load, speed = self.load.load(), self._progress.interval_frames_per_second
        cost = 10 * (load.cpu_learner + load.cpu_workers) / speed if speed and not other_machines else None
        return {**load._asdict(), "core_seconds_per_1000_frames": cost}

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

    def _status(self) -> Status:
        progress, figures = self._progress, self._figures()
        self._learned = progress.interval.figures() or self._learned
        if self._before and progress.interval_seconds < MIN_INTERVAL_SECONDS:
            figures = {**self._before, **progress.counters()}
        return Status(
            figures={**figures, **self._learned},
            max_steps=progress.max_steps,
            planned_updates=self._run.resume.planned_updates,
            return_window=progress.return_window,
            return_last=progress.recent_returns[-1] if progress.recent_returns else None,
            speed=progress.recent_speed(),
            frames_per_step=progress.frames_per_step,
            replays=[
                ReplayFill(replay.name, len(replay), replay.capacity, replay.share, fill)
                for replay, fill in zip(self._mix.replays, self._run.part.replay.warmup_unrolls, strict=True)
            ],
            is_warming_up=self._mix.is_warming_up,
            workers_alive=self._pool.alive,
            worker_count=self._pool.size,
            starting=progress.agent_steps == self._steps_at_start,
        )
