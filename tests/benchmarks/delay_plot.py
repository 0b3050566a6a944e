"""Draw what delays cost: return and regret against `--action_delay`.

    python -m tests.benchmarks.delay_plot results/<sweep>/*/* [--floors=docs/data/floors.json] [--output=delays.png]

The floors are returns of other policies, drawn as lines: {"BoxingNoFrameskip-v4": {"random": 0.1}}.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from option_flags import EnvironmentOptions
from reports.compare_runs import each_once, without_continued
from reports.number_format import table_lines
from reports.panels import COLOURS
from reports.plot import (
    FAINT_INK,
    INK,
    short_count,
    style_axes,
    verbatim,
    write_picture,
)
from reports.scores import game_name
from run_files.run_reader import History, read_histories

ASYNCHRONOUS, TURNS = "asynchronous", "turns"


class Outcome(NamedTuple):
    """What one run came to."""

    game: str
    arm: str
    delay: int
    skipped_frames: int
    return_mean: float  # of its last games, --avg_buff_size of them
    core_seconds: float | None  # of learner and workers; None if they are not known
    frames: float


Outcomes = Mapping[str, Mapping[int, Sequence[Outcome]]]  # of one game: arm → delay → one for each seed
Floors = Mapping[str, Mapping[str, float]]  # game → policy → return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run folders, or an archive of curves")
    parser.add_argument("--floors", type=Path, help="JSON file with the returns of other policies in each game")
    parser.add_argument("--output", type=Path, default=Path("delays.png"))
    given = parser.parse_args()
    floors = json.loads(given.floors.read_text()) if given.floors else {}
    outcomes, left_out = usable([history for place in given.runs for history in read_histories(place)])
    games = by_game(outcomes)
    write_picture(given.output, draw(games, floors))
    print("\n".join([*table(games, floors), *left_out]))


def usable(histories: Sequence[History]) -> tuple[list[Outcome], list[str]]:
    """The outcomes of runs that have ended, and a sentence about each run that is left out.

    A run that was resumed is a part of the run that resumed it, and a run that is given twice counts once.
    """
    outcomes, left_out = [], []
    for history in without_continued(each_once(histories)):
        if problem := _why_left_out(history):
            left_out.append(f"left out: {history.folder}: {problem}")
        else:
            outcomes.append(outcome(history))
    return outcomes, left_out


def _why_left_out(history: History) -> str:
    planned = float(history.options.get("environment_max_steps") or 0)
    if _environment(history).in_real_time:
        return "it was played by the clock, and its delay is not a number of frames"
    if not len(history.curve("return_mean").y):
        return "no game has ended"
    if not len(history.curve("frames").y):
        return "it has no counts of frames"
    if history.agent_steps < planned:
        return f"it has made {history.agent_steps:,.0f} of {planned:,.0f} steps"
    return ""


def _environment(history: History) -> EnvironmentOptions:
    return EnvironmentOptions(**{name: history.options[name] for name in ENVIRONMENT if name in history.options})


def outcome(history: History) -> Outcome:
    """The outcome of a run in which a game has ended."""
    environment = _environment(history)
    return Outcome(
        environment.env,
        arm_of(environment),
        0 if environment.interaction == TURNS else environment.action_delay,
        environment.skipped_frames,
        float(history.curve("return_mean").y[-1]),
        _core_seconds(history),
        float(history.curve("frames").y[-1]),
    )


def _core_seconds(history: History) -> float | None:
    """Of the whole run; None if a report lacks them, as those of a cluster do."""
    costs = history.curve("core_seconds_per_1000_frames", "frames")
    if len(costs.x) < len(history.curve("frames").x):
        return None
    return float((costs.y * np.diff(costs.x, prepend=0.0)).sum() / 1000)


ENVIRONMENT = set(EnvironmentOptions.__dataclass_fields__)


def arm_of(options: EnvironmentOptions) -> str:
    """The name of a way to interact. Without a delay all are the same, and so are they with a short one: see `by_game`.

    The idle action of asynchronous interaction is played at the start of a game only.
    """
    return f"sequential, {options.idle_action}" if options.frames_per_step > options.skipped_frames else ASYNCHRONOUS


def by_game(outcomes: Sequence[Outcome]) -> dict[str, Outcomes]:
    """Game → arm → delay → outcomes.

    Up to a delay of `--skipped_frames`, sequential interaction makes the decisions of asynchronous interaction. So
    these outcomes belong to every arm.
    """
    games: dict[str, dict[str, dict[int, list[Outcome]]]] = {}
    for each in sorted(outcomes, key=lambda outcome: (outcome.game, outcome.arm, outcome.delay)):
        arms = games.setdefault(each.game, defaultdict(lambda: defaultdict(list)))
        arms[each.arm][each.delay].append(each)
    for arms in games.values():
        for arm in list(arms):
            if arm != ASYNCHRONOUS:
                asynchronous = arms.get(ASYNCHRONOUS, {})
                shared = {delay: of for delay, of in asynchronous.items() if delay <= of[0].skipped_frames}
                arms[arm] = defaultdict(list, sorted({**shared, **arms[arm]}.items()))
    return {game: dict(arms) for game, arms in games.items()}


def mean_return(outcomes: Sequence[Outcome]) -> float:
    return float(np.mean([each.return_mean for each in outcomes]))


def regrets(arms: Outcomes) -> dict[str, dict[int, float]]:
    """The paper's regrets by delay: of delay R(0) − R_asynchronous(d), of inaction R_asynchronous(d) − R_arm(d)."""
    asynchronous = {delay: mean_return(of) for delay, of in arms.get(ASYNCHRONOUS, {}).items()}
    found = {}
    if 0 in asynchronous:
        found["delay"] = {delay: asynchronous[0] - value for delay, value in asynchronous.items()}
    for arm, of_arm in arms.items():
        if arm != ASYNCHRONOUS:
            found[f"inaction, {arm}"] = {
                delay: asynchronous[delay] - mean_return(of) for delay, of in of_arm.items() if delay in asynchronous
            }
    return found


def table(games: Mapping[str, Outcomes], floors: Floors) -> list[str]:
    """A line for each game and arm: its returns by delay. Several seeds are joined by slashes."""
    delays = sorted({delay for arms in games.values() for of in arms.values() for delay in of})
    lines = []
    for game, arms in games.items():
        for arm, of in arms.items():
            cells = ["/".join(_number(each.return_mean) for each in of.get(delay, ())) for delay in delays]
            lines.append([game_name(game), arm, *cells])
        for policy, value in floors.get(game, {}).items():
            lines.append([game_name(game), f"{policy} policy", _number(value), *[""] * (len(delays) - 1)])
    headings = ["game", "arm", *(f"d={delay}" for delay in delays)]
    return table_lines(lines, headings, right=set(range(2, len(headings))))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:z.4g}"


def draw(games: Mapping[str, Outcomes], floors: Floors) -> Figure:
    """A row for each game: return against delay, regrets against delay, return against core-seconds."""
    arms = list(dict.fromkeys(arm for of in games.values() for arm in of))
    colours = dict(zip(arms, COLOURS, strict=False))
    height = 0.9 + 2.9 * len(games)
    figure = Figure(figsize=(14, height), dpi=100, facecolor="white")
    grid = figure.add_gridspec(
        len(games), 3, left=0.05, right=0.985, bottom=0.55 / height, top=1 - 0.75 / height, wspace=0.2, hspace=0.42
    )
    for row, (game, of_game) in enumerate(games.items()):
        panels = [figure.add_subplot(grid[row, column]) for column in range(3)]
        _draw_returns(panels[0], game, of_game, colours, floors.get(game, {}))
        _draw_regrets(panels[1], of_game, colours)
        _draw_costs(panels[2], of_game, colours)
        if row == len(games) - 1:
            for axes, label in zip(panels, ("delay, frames", "delay, frames", "core-seconds of the run"), strict=True):
                axes.set_xlabel(label, fontsize=9, color=FAINT_INK)
    shown = {label: line for axes in figure.axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(
        list(shown.values()),
        [verbatim(label) for label in shown],
        loc="upper left",
        bbox_to_anchor=(0.045, 1),
        ncols=6,
        fontsize=9,
        frameon=False,
        labelcolor=INK,
    )
    return figure


def _draw_returns(
    axes: Axes, game: str, arms: Outcomes, colours: Mapping[str, str], floors: Mapping[str, float]
) -> None:
    style_axes(axes, f"{game_name(game)}: return")
    for arm, of in arms.items():
        means = {delay: mean_return(seeds) for delay, seeds in _own(arm, of).items()}
        axes.plot(list(means), list(means.values()), "o-", color=colours[arm], ms=4, label=arm)
        for delay, seeds in of.items():
            axes.plot([delay] * len(seeds), [each.return_mean for each in seeds], ".", color=colours[arm], ms=3)
    for (policy, value), style in zip(floors.items(), ("--", ":", "-."), strict=False):
        axes.axhline(value, color=FAINT_INK, linestyle=style, linewidth=1.2, label=f"{policy} policy")
    _delay_axis(axes, arms)


def _draw_regrets(axes: Axes, arms: Outcomes, colours: Mapping[str, str]) -> None:
    style_axes(axes, "Regret of the delay (dashed) and of inaction")
    for name, values in regrets(arms).items():
        arm = name.removeprefix("inaction, ")
        delay = name == "delay"
        colour = colours.get(ASYNCHRONOUS if delay else arm, INK)
        axes.plot(list(values), list(values.values()), "o--" if delay else "o-", color=colour, ms=4)
    axes.axhline(0, color=FAINT_INK, linewidth=0.8)
    _delay_axis(axes, arms)


def _draw_costs(axes: Axes, arms: Outcomes, colours: Mapping[str, str]) -> None:
    style_axes(axes, "Return against core-seconds, by delay")
    for arm, of in arms.items():
        for delay, seeds in of.items():
            if seeds[0].arm != arm:
                continue  # shared by all arms
            points = [(each.core_seconds, each.return_mean) for each in seeds if each.core_seconds is not None]
            for point in points:
                axes.plot(*point, "o", color=colours[arm], ms=4)
            if points:
                place = tuple(np.mean(points, axis=0))
                axes.annotate(str(delay), place, (4, 3), textcoords="offset points", fontsize=7, color=colours[arm])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))


def _own(arm: str, of: Mapping[int, Sequence[Outcome]]) -> dict[int, Sequence[Outcome]]:
    """Without the delays that all arms share, except the last one, at which the line of another arm begins."""
    shared = [delay for delay, seeds in of.items() if seeds[0].arm != arm]
    return {delay: seeds for delay, seeds in of.items() if delay not in shared[:-1]}


def _delay_axis(axes: Axes, arms: Outcomes) -> None:
    """Delays by powers of two, with 0 beside 1."""
    axes.set_xscale("symlog", base=2, linthresh=1)
    delays = sorted({delay for of in arms.values() for delay in of})
    axes.set_xticks(delays, [str(delay) for delay in delays])
    axes.set_xlim(delays[0] - 0.3, delays[-1] * 1.2 + 0.3)
    axes.xaxis.set_minor_locator(NullLocator())


if __name__ == "__main__":
    main()
