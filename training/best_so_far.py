"""The best policy so far, by the mean return of training games and by that of evaluations."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from run_files.checkpoint import BEST_EVAL, Checkpoint, InvalidCheckpointError, read_checkpoint
from run_files.metrics import EVALUATIONS, Report, read_metrics
from run_files.run_folder import BEST, CHECKPOINTS

MIN_GAMES = 20  # games that a best mean return needs, or a full window where the window is smaller


@dataclass
class BestSoFar:
    """The highest mean returns of a run and its parents; best.pt and best_eval.pt are the checkpoints with them."""

    return_mean: float | None = None
    eval_mean: float | None = None
    return_steps: int | None = None  # agent steps of best.pt
    evaluated_steps: int = 0  # agent steps up to which no evaluation is due any more

    @classmethod
    def of_parent(cls, parent: Checkpoint, eval_period: int) -> Self:
        """The best results of the parent. Its best files may be newer than the checkpoint that is resumed.

        `eval_period` is that of the resumed run.
        """
        progress, folder = parent.content["progress"], parent.path.parent
        best = cls(progress["best_return_mean"], progress["best_eval_mean"])
        evaluations = _evaluations(parent)
        best.evaluated_steps = _evaluated_steps(parent, evaluations, eval_period)
        if folder.name != CHECKPOINTS:  # best files beside a checkpoint elsewhere may be of another run
            return cls(evaluated_steps=best.evaluated_steps)
        if (folder / BEST).exists():
            with suppress(InvalidCheckpointError):
                kept = read_checkpoint(folder / BEST)
                best.return_mean, best.return_steps = kept.content["progress"]["best_return_mean"], kept.agent_steps
        if (folder / BEST_EVAL).exists():
            means = [best.eval_mean, *(row.get("best_eval_return_mean") for row in evaluations)]
            best.eval_mean = max((mean for mean in means if isinstance(mean, int | float)), default=None)
        return best

    def state_dict(self) -> dict[str, float | None]:
        return {
            "best_return_mean": self.return_mean,
            "best_eval_mean": self.eval_mean,
            "evaluated_steps": self.evaluated_steps,
        }

    def update_best_return(self, mean: float | None, games: int, window: int) -> bool:
        """Whether `mean`, over the latest `games` of at most `window` games, is the highest so far; if so, keeps it."""
        if mean is None or games < min(MIN_GAMES, window):
            return False
        if self.return_mean is not None and mean <= self.return_mean:
            return False
        self.return_mean = mean
        return True

    def is_best_evaluation(self, mean: float) -> bool:
        return self.eval_mean is None or mean > self.eval_mean


def _evaluated_steps(parent: Checkpoint, evaluations: Sequence[Report], eval_period: int) -> int:
    """The agent steps of the parent's latest evaluation. Its own steps if only another `eval_period` makes one due."""
    # The last evaluation may be newer than the checkpoint.
    steps = [parent.content["progress"]["evaluated_steps"], *(row.get("agent_steps") for row in evaluations)]
    latest = max((step for step in steps if isinstance(step, int) and step <= parent.agent_steps), default=0)
    period = parent.config.test.eval_period
    was_due = period and latest // period < parent.agent_steps // period
    return latest if was_due or period == eval_period else parent.agent_steps


def _evaluations(parent: Checkpoint) -> list[Report]:
    """The evaluations of the parent's run; none if the file is missing or damaged: a resume works without it."""
    try:
        return read_metrics(parent.run_folder / EVALUATIONS)
    except (OSError, ValueError):
        return []
