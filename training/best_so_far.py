"""The best policy so far, by the mean return of training games and by that of evaluations."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from run_files.checkpoint import Checkpoint, InvalidCheckpointError, read_checkpoint
from run_files.metrics import EVALUATIONS, last_report
from run_files.run_folder import BEST, CHECKPOINTS

MIN_GAMES = 20  # games that a best mean return needs, or a full window where the window is smaller


@dataclass
class BestSoFar:
    """The highest mean returns of a run and its parents; best.pt and best_eval.pt are the checkpoints with them."""

    return_mean: float | None = None
    return_steps: int | None = None  # agent steps of best.pt
    eval_mean: float | None = None
    evaluated_steps: int = 0  # agent steps up to which no evaluation is due any more

    @classmethod
    def of_parent(cls, parent: Checkpoint, eval_period: int) -> Self:
        """The best results of the parent, whose best files may be newer than the checkpoint that is resumed.

        `eval_period` is that of the resumed run.
        """
        progress = parent.content["progress"]
        best = cls(eval_mean=_number(progress["best_eval_mean"]))
        with suppress(InvalidCheckpointError):  # there is none, or it is damaged: the next one is the best
            kept = read_checkpoint(parent.path.parent / BEST)
            best.return_mean = _number(kept.content["progress"]["best_return_mean"])
            best.return_steps = kept.agent_steps
        evaluation = _last_evaluation(parent)  # it may be newer than the checkpoint
        best.eval_mean = evaluation.get("best_eval_return_mean", best.eval_mean)
        best.evaluated_steps = min(evaluation.get("agent_steps", int(progress["evaluated_steps"])), parent.agent_steps)
        period = parent.config.test.eval_period
        was_due = period and best.evaluated_steps // period < parent.agent_steps // period
        if period != eval_period and not was_due:  # only the other period makes one due
            best.evaluated_steps = parent.agent_steps
        if parent.path.parent.name != CHECKPOINTS:  # best files beside a checkpoint elsewhere may be of another run
            return cls(evaluated_steps=best.evaluated_steps)
        return best

    def state_dict(self) -> dict[str, Any]:
        return {
            "best_return_mean": self.return_mean,
            "best_return_steps": self.return_steps,
            "best_eval_mean": self.eval_mean,
            "evaluated_steps": self.evaluated_steps,
        }

    def is_best_return(self, mean: float | None, games: int, window: int) -> bool:
        """Whether `mean`, over the latest `games` of at most `window` games, is the highest so far."""
        if mean is None or games < min(MIN_GAMES, window):
            return False
        return self.return_mean is None or mean > self.return_mean

    def is_best_evaluation(self, mean: float) -> bool:
        return self.eval_mean is None or mean > self.eval_mean


def _last_evaluation(parent: Checkpoint) -> dict[str, Any]:
    """Empty if there is none or the file is damaged: a resume works without it."""
    try:
        return dict(last_report(parent.run_folder / EVALUATIONS) or {})
    except (OSError, ValueError):
        return {}


def _number(value: Any) -> Any:
    return None if value is None else float(value)
