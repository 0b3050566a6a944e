"""Statistics of the draws from each replay in one interval: age, times drawn, distances."""

from collections.abc import Sequence

from replay.batch_mix import Batch
from run_files.metrics import JsonValue

AGE, TIMES_DRAWN, CANDIDATES, SECONDS, RANKED, DISTANCE_DRAWN, DISTANCE_CANDIDATES = range(SUMS := 7)


class DrawStatistics:
    """Sums over draws, one row for each replay."""

    def __init__(self, rows: Sequence[Sequence[float]] = (), draws: int = 0) -> None:
        self.rows = [list(row) for row in rows]
        self.draws = draws

    def add(self, batch: Batch) -> None:
        self.draws += 1
        if not self.rows:
            self.rows = [[0.0] * SUMS for _ in batch.draws]
        for row, (drawn, age, seconds) in zip(self.rows, batch.draws, strict=True):
            row[AGE] += age
            row[TIMES_DRAWN] += drawn.times_drawn
            row[CANDIDATES] += drawn.candidates
            row[SECONDS] += seconds
            if drawn.distance_drawn is not None and drawn.distance_candidates is not None:
                row[RANKED] += 1
                row[DISTANCE_DRAWN] += drawn.distance_drawn
                row[DISTANCE_CANDIDATES] += drawn.distance_candidates

    def figures(self) -> list[dict[str, JsonValue]]:
        """The means of each replay, empty before the first draw. Distances are NaN if no draw of the replay ranked."""
        return [self._means(row) for row in self.rows]

    def seconds(self) -> list[float]:
        """The time that the draws took, for each replay."""
        return [row[SECONDS] for row in self.rows]

    def _means(self, row: Sequence[float]) -> dict[str, JsonValue]:
        ranked = row[RANKED] or float("nan")
        return {
            "age_mean": row[AGE] / self.draws,
            "times_drawn_mean": row[TIMES_DRAWN] / self.draws,
            "lambda": row[CANDIDATES] / self.draws,
            "distance_drawn": row[DISTANCE_DRAWN] / ranked,
            "distance_candidates": row[DISTANCE_CANDIDATES] / ranked,
        }
