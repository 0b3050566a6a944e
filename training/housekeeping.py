"""Reports, checkpoints and evaluations, whenever they are due and at the end of a run."""

from collections.abc import Sequence

from learners.agreement import Agreement
from run_files.metrics import Episode
from training.checkpoint_saver import CheckpointSaver
from training.counters.progress import Progress
from training.periodic_evaluation import Evaluation
from training.reporter import Reporter
from training.summary_file import SummaryFile


class Housekeeping:
    """Everything that the training loop does besides training."""

    def __init__(
        self,
        progress: Progress,
        reporter: Reporter,
        saver: CheckpointSaver,
        evaluation: Evaluation,
        summary: SummaryFile,
        agreement: Agreement,
    ) -> None:
        self._progress = progress
        self._reporter = reporter
        self._saver = saver
        self._evaluation = evaluation
        self._summary = summary
        self._agreement = agreement
        self._has_updated = False  # since the latest tick

    def after_unroll(self, episodes: Sequence[Episode]) -> None:
        self._reporter.after_unroll(episodes)

    def after_update(self) -> None:
        self._has_updated = True
        with self._progress.stage("report"):
            if self._agreement.report_due(self._reporter.is_due):
                self._saver.end_if_diverged()
                self._reporter.report()

    def tick(self) -> None:
        """Called in every iteration of the training loop."""
        with self._progress.stage("save"):
            if self._saver.save_if(self._agreement.save_due(self._saver.due)):
                self._summary.update()
            self._evaluation.tick()
            if self._has_updated:
                self._has_updated = False
                self._evaluation.start_if_due()
        with self._progress.stage("report"):
            self._reporter.tick()

    def finish(self, *, with_replays: bool, report: bool) -> None:
        """Write the last checkpoint and, if asked, the last report, also after an error in the training loop."""
        try:
            self._saver.save(with_replays=with_replays)
        finally:
            if report:
                self._reporter.report()
            self._reporter.show()
