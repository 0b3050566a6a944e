"""The tables of the benchmark `peers`: speeds and returns by game, and how many times better we are over all games."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from reports.number_format import NOTHING_YET, count, markdown_table, number, percent, table_lines
from reports.scores import human_normalised, interquartile_mean_of_runs
from run_files.metrics import Report

OWN = "ours"
Scores = dict[tuple[str, int], float]  # by game and seed
BY_GAME = ("game", "arm", "runs", "agent steps", "steps/s", "games", "return", "human-normalised")
OVER_ALL = ("arm", "runs", "ours / its steps/s", "interquartile mean", "95% interval", "ours / its")


def result_lines(rows: Sequence[Report], titles: Mapping[str, str], *, markdown: bool) -> list[str]:
    """Both tables. `titles` holds the arms in their order."""
    table = markdown_table if markdown else table_lines
    by_game = [
        _game_cells(game, titles[arm], chosen)
        for game in dict.fromkeys(str(row["game"]) for row in rows)
        for arm in titles
        if (chosen := [row for row in rows if (row["game"], row["arm"]) == (game, arm)])
    ]
    arms = [arm for arm in titles if any(row["arm"] == arm for row in rows)]
    over_all = [_arm_cells(arm, titles[arm], rows) for arm in arms]
    return [
        *table(by_game, BY_GAME, right=range(2, len(BY_GAME))),
        "",
        *table(over_all, OVER_ALL, right=range(1, len(OVER_ALL))),
    ]


def _game_cells(game: str, title: str, rows: Sequence[Report]) -> list[str]:
    def mean(name: str) -> float | None:
        found = [float(str(row[name])) for row in rows if row[name] is not None]
        return statistics.fmean(found) if found else None

    def cell(name: str, form: Callable[[float], str]) -> str:
        value = mean(name)
        return NOTHING_YET if value is None else form(value)

    returned = mean("return_mean")
    return [
        game,
        title,
        str(len(rows)),
        cell("agent_steps", count),
        cell("steps_per_second", count),
        cell("games", count),
        number(returned),
        percent(None if returned is None else human_normalised(game, returned)),
    ]


def _arm_cells(arm: str, title: str, rows: Sequence[Report]) -> list[str]:
    own, its = (by_run(rows, one, normalised) for one in (OWN, arm))
    speeds, its_speeds = (by_run(rows, one, measured_speed) for one in (OWN, arm))
    cells = [title, str(sum(row["arm"] == arm for row in rows))]
    cells.append(NOTHING_YET if arm == OWN else times(speed_ratio(speeds, its_speeds)))
    if not its:
        return [*cells, NOTHING_YET, NOTHING_YET, NOTHING_YET]
    value, interval = interquartile_mean_of_runs(_by_game(its))
    between = NOTHING_YET if interval is None else f"{percent(interval[0])} to {percent(interval[1])}"
    return [*cells, percent(value), between, NOTHING_YET if arm == OWN else times(return_ratio(own, its))]


def by_run(rows: Sequence[Report], arm: str, value: Callable[[Report], float | None]) -> Scores:
    found = {(str(row["game"]), int(str(row["seed"]))): value(row) for row in rows if row["arm"] == arm}
    return {run: known for run, known in found.items() if known is not None}


def normalised(row: Report) -> float | None:
    mean = row["return_mean"]
    return None if mean is None else human_normalised(str(row["game"]), float(str(mean)))


def measured_speed(row: Report) -> float | None:
    speed = row["steps_per_second"]
    return None if speed is None else float(str(speed))


def speed_ratio(own: Scores, its: Scores) -> float | None:
    """The median over the runs that both have."""
    common = own.keys() & its.keys()
    return statistics.median(own[run] / its[run] for run in common) if common else None


def return_ratio(own: Scores, its: Scores) -> float | None:
    """Of the interquartile means over the runs that both have. None if the peer's is not above random play."""
    common = own.keys() & its.keys()
    if not common:
        return None
    our_mean, its_mean = (
        interquartile_mean_of_runs(_by_game({run: scores[run] for run in common})).value for scores in (own, its)
    )
    return our_mean / its_mean if its_mean > 0 else None


def times(ratio: float | None) -> str:
    return NOTHING_YET if ratio is None else f"{ratio:.2f}"


def _by_game(scores: Scores) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for (game, _), value in sorted(scores.items()):
        found.setdefault(game, []).append(value)
    return found
