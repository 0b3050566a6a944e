"""The state of a running test, and its results."""

from collections.abc import Mapping, Sequence
from typing import Any

from reports.number_format import number, percent, table_lines
from reports.run_display import Cards, Status
from run_files.metrics import Report

CARDS: Cards = {
    "games": (("ended", "{games}", "of {max_games}"), ("processes", "{worker_count}", "")),
    "speed and time": (
        ("steps/s", "{speed}", ""),
        ("elapsed", "{seconds}", ""),
        ("left", "{seconds_left}", ""),
    ),
    "returns": (
        ("mean", "{return_mean}", ""),
        ("lowest", "{return_min}", ""),
        ("highest", "{return_max}", ""),
    ),
}
LINE = {
    **{"done {done}": 11, "games {games} of {max_games}": 20, "speed {speed}/s": 14, "time {seconds}": 11},
    **{"left {seconds_left}": 11, "return {return_mean}": 0},
}


def status_of_test(games: int, processes: int, seconds: float, returns: Sequence[float], agent_steps: int) -> Status:
    """The state of a test of so many games; `returns` and `agent_steps` are those of finished games."""
    ended = len(returns)
    figures: Report = {
        "games": ended,
        "max_games": games,
        "worker_count": processes,
        "done": ended / games,
        "seconds": seconds,
        "seconds_left": seconds * (games / ended - 1) if ended else None,  # if the others take as long as these
        "speed": agent_steps / max(seconds, 1e-9),
        "return_mean": sum(returns) / ended if ended else None,
        "return_min": min(returns, default=None),
        "return_max": max(returns, default=None),
    }
    return Status(figures=figures, cards=CARDS, texts=LINE)


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
