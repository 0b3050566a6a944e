"""What the training loop does besides training: reports, checkpoints and evaluations, when due and at the end."""

import time
from collections.abc import Mapping, Sequence

from learners.agreement import GroupAgreement, News
from options.learning_options import LOSS_TERMS
from reports.run_display import ReplayFill, Status
from run_files.metrics import Episode, JsonValue, Report, Sink
from training.checkpoint_saver import NOTHING, WITH_REPLAYS, CheckpointSaver
from training.machine_load import MachineLoad
from training.periodic_evaluation import PeriodicEvaluation
from training.run import Run
from training.summary import last_lines, write_summary

LEARNER_FIGURES = (*LOSS_TERMS, "total_loss", "entropy", "gradient_norm", "learning_rate")
MIN_INTERVAL_SECONDS = 2.0  # until an interval is this long, the display shows the figures of the one before


class Housekeeping:
    """Has everything that reports, saves and evaluates. With several learners, they do so together."""

    def __init__(self, run: Run, sinks: Sink) -> None:
        self._run = run
        self._sinks = sinks
        self._load = MachineLoad(run.actors.times, run.actors.pool, run.machine.device)
        self._saver = CheckpointSaver(run)
        self._evaluation = PeriodicEvaluation(run, self._saver) if run.part.test.eval_period else None
        self._has_updated = False  # since the latest tick
        self._before: Report = {}  # the latest report
        self._learned: Mapping[str, float | None] = {}  # figures of the learner, of the latest interval with an update
        self._unknown_goal: str | None = None  # as announced
        if isinstance(run.agreement, GroupAgreement):
            run.agreement.connect(self._own_news, self._receive)

    def after_unroll(self, episodes: Sequence[Episode]) -> None:
        """Send the games that ended in an unroll to the sinks. During warm-up, reports are written after unrolls.

        Otherwise they are written after updates, so that their steps do not depend on how many unrolls arrive at once.
        With several learners, only updates are made together, so there are no reports during warm-up.
        """
        self._games_ended(episodes)
        if self._run.mix.is_warming_up and self._run.agreement.alone and self._report_is_due:
            self._report()

    def after_update(self) -> None:
        self._has_updated = True
        with self._run.progress.stage("report"):
            if self._run.agreement.report_due(self._report_is_due):
                self._saver.end_if_diverged()
                self._report()

    def tick(self) -> None:
        """Called in every iteration of the training loop."""
        with self._run.progress.stage("save"):
            due = self._run.agreement.save_due(self._saver.due)
            if due != NOTHING:
                self._saver.save(with_replays=due == WITH_REPLAYS)
                write_summary(self._run)
            if self._evaluation is not None:
                self._evaluation.tick()
                # After updates only: the agent steps between two of them depend on when unrolls arrive.
                if self._has_updated:
                    self._evaluation.start_if_due()
            self._has_updated = False
        with self._run.progress.stage("report"):
            if self._run.console.due(time.monotonic()):
                self._show()

    @property
    def _report_is_due(self) -> bool:
        return self._run.progress.steps_since_report >= self._run.config.report.report_period

    def _games_ended(self, episodes: Sequence[Episode]) -> None:
        for episode in episodes:
            self._sinks.episode(episode)

    def _show(self) -> None:
        """Show the state of the run on the console."""
        self._run.console.show(self._status(), time.monotonic())

    def _report(self) -> None:
        """Report the interval since the latest report. With several learners, all call this together."""
        of_batch = list(self._run.progress.interval.learned())
        self._before = report = self._figures()
        self._run.progress.begin_interval()
        self._load.begin_interval()
        self._sinks.write(self._run.agreement.merged(report, of_batch, self._run.learner.weights_checksum))
        write_summary(self._run, if_due=True)
        unknown, self._unknown_goal = self._unknown_goal, self._run.progress.unknown_goal()
        if self._unknown_goal is not None and unknown is None:
            self._run.announce(self._unknown_goal)

    def end_training(self) -> None:
        """Save, report, and prepare the last lines of the run; also after an error in the training loop."""
        run = self._run
        if run.status == "running":
            run.status = "failed"
        try:
            self._save_and_report()
        except BaseException:
            run.status = "failed"
            raise
        finally:
            run.progress.end()
            run.last_lines += last_lines(run, self._saver, self._load)

    def _save_and_report(self) -> None:
        """The last checkpoint and, if there is something new, the last report."""
        run, learners = self._run, self._run.learners
        if learners.another_lost and run.learner.device.type == "cuda":
            return  # the GPU may wait for the gradients of the lost learner for ever, and every copy from it with it
        try:
            # Where the first learner is gone, the run resumes from its last checkpoint, to which the replays belong
            # that the others have saved before.
            self._saver.save(with_replays=run.config.saves_replays and (run.rank.is_first or not learners.lost))
        finally:
            with learners.guarded():
                reports = learners.from_first(self._wants_last_report(run.status == "finished"))
            if reports:
                self._report()
            self._show()

    def end_evaluation(self) -> None:
        """Wait for the evaluations that are due. At last, a checkpoint that could not be written is an error."""
        if self._evaluation is not None:
            self._evaluation.finish()
        self._saver.end_if_unsaved()

    def close(self) -> None:
        if self._evaluation is not None:
            self._evaluation.close()

    # --- What is reported and shown -----------------------------------------------------------------------------------

    def _figures(self) -> Report:
        """Everything that is reported, by the names in metrics.jsonl: a new figure of any of these parts is, too."""
        actors, progress = self._run.actors, self._run.progress
        nodes = actors.node_figures()
        return {
            **dict.fromkeys(LEARNER_FIGURES),
            **self._replay_figures(),
            **progress.figures(),
            "rounds_under_way": actors.pool.rounds_under_way,
            "worker_restarts": actors.pool.children.restarts,
            "failed_resets": actors.pool.failed_resets,
            **self._load.figures(0.0 if nodes else progress.interval_frames_per_second),
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

    # --- Several learners ---------------------------------------------------------------------------------------------

    def _own_news(self) -> News:
        """What this learner tells the others. The first one decides when all report and save."""
        progress = self._run.progress
        news = progress.take_unsent()._replace(updates=self._run.learner.updates)
        if not self._run.rank.is_first:
            return news
        return news._replace(goal_reached=progress.goal_reached, report=self._report_is_due, save=self._saver.due())

    def _receive(self, news: Sequence[News]) -> None:
        progress = self._run.progress
        self._games_ended(progress.count_others(news))
        progress.goal_reached = progress.goal_reached or any(each.goal_reached for each in news)

    def _wants_last_report(self, finished: bool) -> bool:
        """Whether there is something for a last report.

        A reproducible run that is interrupted saves its unfinished interval instead: the resumed run reports it as a
        whole.
        """
        progress = self._run.progress
        anything_new = progress.steps_since_report > 0 or progress.interval.updates > 0
        return anything_new and (finished or progress.is_complete or not self._run.config.run.reproducible)
