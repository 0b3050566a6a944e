"""The state of a running test, and its results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.console import Group, RenderableType

from reports.number_format import count, duration, number, percent, table_lines
from reports.run_display import ACCENT, Fact, card_grid, in_columns, progress_line


@dataclass(frozen=True, slots=True)
class TestStatus:
    """The state of a test; `returns` and `agent_steps` count finished games only."""

    games: int
    worker_count: int
    seconds: float = 0.0
    returns: Sequence[float] = ()
    agent_steps: int = 0

    __test__ = False  # pytest would take it for a collection of tests
    trend_value: ClassVar[None] = None

    @property
    def done(self) -> float:
        return len(self.returns) / self.games

    @property
    def mean(self) -> float | None:
        return sum(self.returns) / len(self.returns) if self.returns else None

    @property
    def seconds_left(self) -> float | None:
        """An estimate: the remaining games take as long as those so far."""
        return self.seconds * (1 / self.done - 1) if self.returns else None

    @property
    def speed(self) -> float:
        return self.agent_steps / max(self.seconds, 1e-9)

    def view(self, width: int, trend: Sequence[float]) -> RenderableType:
        """The live display in `width` columns. There is no trend."""
        games = [
            Fact("ended", count(len(self.returns)), f"of {count(self.games)}"),
            Fact("processes", count(self.worker_count)),
        ]
        times = [
            Fact("steps/s", count(self.speed)),
            Fact("elapsed", duration(self.seconds)),
            Fact("left", duration(self.seconds_left)),
        ]
        returns = [
            Fact("mean", number(self.mean), style=f"bold {ACCENT}"),
            Fact("lowest", number(min(self.returns, default=None))),
            Fact("highest", number(max(self.returns, default=None))),
        ]
        cards = [("games", games), ("speed and time", times), ("returns", returns)]
        return Group("", progress_line(self.done), card_grid(cards, width))

    def line(self) -> str:
        return in_columns(
            {
                f"done {self.done:.0%}": 9,
                f"games {count(len(self.returns))} of {count(self.games)}": 20,
                f"speed {count(self.speed)}/s": 14,
                f"time {duration(self.seconds)}": 11,
                f"left {duration(self.seconds_left)}": 11,
                f"return {number(self.mean)}": 0,
            }
        )


def result_lines(result: Mapping[str, Any]) -> list[str]:
    """The results of a test as lines; `result` is the content of the result file."""
    games, wanted = result["games"], result["games_wanted"]
    lines = [f"{games:,} games in {result['seconds']:,.0f} s, {result['agent_steps_per_second']:,.0f} agent steps/s"]
    if games < wanted:
        lines[0] = f"stopped after {games:,} of {wanted:,} games, {result['seconds']:,.0f} s"
        lines.append("short games end first, so the mean of all games may differ from this one")
    interval, std, human = result["return_mean_95"], result["return_std"], result["human_normalised"]
    between = "" if interval is None else f"{number(interval[0])} to {number(interval[1])} with 95% confidence"
    scale = "0% is random play, 100% a human tester"
    rows = [
        ("return", "mean", number(result["return_mean"]), between),
        ("", "median", number(result["return_median"]), ""),
        *([] if std is None else [("", "standard deviation", number(std), "")]),
        ("", "lowest", number(result["return_min"]), ""),
        ("", "highest", number(result["return_max"]), ""),
        *([] if human is None else [("", "human-normalised", percent(human), scale)]),
        ("length", "mean", f"{result['length_mean']:,.0f}", "agent steps"),
        ("", "cut off", f"{result['cut_off']:,}", "games"),
    ]
    return [*lines, *table_lines(rows, right={2})]
