"""How a test stands while it goes on, and what it found at its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.run_display import BLOCK_WIDTH, Cell, Span, count, duration, progress_bar, score, wrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class TestStatus:
    """Where a test stands; `returns` and `length` are of the games that are over."""

    games: int
    seconds: float
    worker_count: int
    returns: Sequence[float]
    agent_steps: int

    __test__ = False  # or pytest takes it for a collection of tests

    @property
    def starting(self) -> bool:
        return not self.returns

    @property
    def done(self) -> float:
        return len(self.returns) / self.games

    @property
    def mean(self) -> float | None:
        return sum(self.returns) / len(self.returns) if self.returns else None

    @property
    def seconds_left(self) -> float | None:
        """As long as the games so far took; nobody knows how long the others are."""
        return self.seconds * (1 / self.done - 1) if self.returns else None

    @property
    def speed(self) -> float:
        return self.agent_steps / max(self.seconds, 1e-9)

    def block(self, width: int) -> list[list[Span]]:
        games = [Cell(count(len(self.returns)), f"of {count(self.games)}"), Cell(count(self.speed), "steps/s")]
        times = [Cell(duration(self.seconds), "elapsed"), Cell(duration(self.seconds_left), "left")]
        lowest, highest = min(self.returns, default=None), max(self.returns, default=None)
        returns = [Cell(score(self.mean), "mean"), Cell(score(lowest), "lowest"), Cell(score(highest), "highest")]
        blank: list[Span] = []
        bar = progress_bar(self.done, min(width, BLOCK_WIDTH))
        return [blank, bar, *wrapped("games", games + times, width), *wrapped("return", returns, width)]

    def line(self) -> str:
        pairs = [
            (f"done {self.done:.0%}", 9),
            (f"games {count(len(self.returns))} of {count(self.games)}", 20),
            (f"speed {count(self.speed)}/s", 14),
            (f"time {duration(self.seconds)}", 11),
            (f"left {duration(self.seconds_left)}", 11),
            (f"return {score(self.mean)}", 0),
        ]
        return "  ".join(pair.ljust(pair_width) for pair, pair_width in pairs)


def verdict(result: Mapping[str, Any]) -> list[str]:
    """The results of a test, as they stand in its file, on a few lines."""
    games, wanted = result["games"], result["games_wanted"]
    lines = [f"{games:,} games in {result['seconds']:,.0f} s, {result['agent_steps_per_second']:,.0f} agent steps/s"]
    if games < wanted:
        lines[0] = f"stopped after {games:,} of {wanted:,} games, {result['seconds']:,.0f} s"
        lines.append("short games end first: had all been played to their end, the mean could be another")
    interval = result["return_mean_95"]
    between = "" if interval is None else f" ({interval[0]:,.2f} to {interval[1]:,.2f} with 95% confidence)"
    spread = "" if result["return_std"] is None else f", standard deviation {result['return_std']:,.2f}"
    lines.append(f"return    mean {result['return_mean']:,.2f}{between}")
    lines.append(
        f"          median {result['return_median']:,.2f}{spread}, "
        f"lowest {result['return_min']:,.2f}, highest {result['return_max']:,.2f}"
    )
    lines.append(f"length    mean {result['length_mean']:,.0f} agent steps, {result['cut_off']:,} games cut off")
    if result["human_normalised"] is not None:
        lines.append(
            f"human     {result['human_normalised']:.0%} of the way from random play to a human tester's score"
        )
    return lines
