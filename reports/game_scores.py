"""The scores of runs as a table: `python -m reports.game_scores SWEEP` or `RUN [RUN ...]`.

Returns by game, human-normalised, beside published ones; the interquartile mean over runs; and Atari-5's estimate of
the median of 57 games.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from machine.program import run_command
from options.command_line import split_words
from options.rules import Options, UsageError, declared, one_of, option, whole
from reports.compare_runs import group_runs
from reports.number_format import NOTHING_YET, count, markdown_table, number, percent, table_lines
from reports.scores import (
    AGENTS,
    ATARI_5,
    PUBLISHED,
    Estimate,
    atari5_median_of_runs,
    game_name,
    human_normalised,
    interquartile_mean_of_runs,
    published_name,
)
from run_files.run_reader import History, read_histories

USAGE = "usage: python -m reports.game_scores SWEEP|RUN [RUN ...] [--name=value ...]"
LAST_GAMES = 100
HEADINGS = ("game", "runs", "steps", "return", "lowest", "highest", "human-normalised", *AGENTS)
RULES = (
    f"{', '.join(AGENTS)}: Dopamine's after 10 million frames, means of five runs with sticky actions, and only the "
    "actions that a game needs (--full_action_space=false)."
)


@dataclass(frozen=True, kw_only=True)
class GameScoreOptions(Options):
    agent_steps: int = option(
        0, whole(0), "Scores after so many agent steps of each run. 0: at its end. 2500000 are 10 million frames."
    )
    format: str = option("text", one_of("text", "markdown"), "How the tables are written.")


class GameRow(NamedTuple):
    """The runs of one game with equal options."""

    env: str
    returns: Sequence[float]  # the mean of the last games of each run
    agent_steps: float  # of the run with the fewest

    @property
    def normalised(self) -> list[float]:
        """The score of each run; empty for a game without published scores of human players."""
        scores = [human_normalised(self.env, mean) for mean in self.returns]
        return [found for found in scores if found is not None]


def main(arguments: Sequence[str]) -> None:
    flags, places = split_words(arguments, declared(GameScoreOptions))
    options = GameScoreOptions(**flags)
    if not places:
        raise UsageError("name at least one run or sweep, such as results/sweep_atari5.")
    histories = [history for place in places for history in read_histories(Path(place))]
    print("\n".join(score_lines(histories, options)))


def score_lines(histories: Sequence[History], options: GameScoreOptions) -> list[str]:
    """A table for each configuration, and below it what is over all of its games."""
    rows: dict[str, list[GameRow]] = {}
    without_games: list[str] = []
    for group in group_runs(histories):
        means = [(run, _last_mean(run, options.agent_steps)) for run in group.runs]
        without_games += [str(run.folder) for run, mean in means if mean is None]
        known = [mean for _, mean in means if mean is not None]
        if known:
            steps = min(run.agent_steps for run, mean in means if mean is not None)
            steps = min(steps, options.agent_steps or math.inf)
            rows.setdefault(group.name, []).append(GameRow(group.env, known, steps))
    by_then = f" by {options.agent_steps:,} agent steps" if options.agent_steps else ""
    if not rows:
        raise UsageError(f"{without_games[0]} has no finished game{by_then}, so there are no scores.")
    markdown = options.format == "markdown"
    parts: list[list[str]] = []
    for name, games in rows.items():
        if len(rows) > 1:
            parts.append([f"### {name}" if markdown else f"{name}:"])
        parts += _tables(sorted(games), markdown)
    if any(_published(group.env) for games in rows.values() for group in games):
        parts.append([RULES])
    if without_games:
        parts.append([f"left out, without a finished game{by_then}: {', '.join(without_games)}"])
    return [line for part in parts for line in ("", *part)][1:]


def _last_mean(history: History, agent_steps: int) -> float | None:
    """The mean return of the last games up to `agent_steps` (0: all); None if no game has ended."""
    limit = agent_steps or math.inf
    if limit < math.inf and history.agent_steps < limit:
        raise UsageError(
            f"--agent_steps={agent_steps} is more than {history.folder} has, {history.agent_steps:,.0f}; a smaller "
            "number would be right."
        )
    returns = history.games.y[history.games.x <= limit][-LAST_GAMES:]
    if not len(returns):  # an archive of curves has no games, but their means
        means = history.curve("return_mean")
        returns = means.y[means.x <= limit][-1:]
    return float(np.mean(returns)) if len(returns) else None


def _tables(games: Sequence[GameRow], markdown: bool) -> list[list[str]]:
    """The table by game, and with several runs the one over all of them, each as lines."""
    table = markdown_table if markdown else table_lines
    parts = [table([_cells(row) for row in games], HEADINGS, right=range(1, len(HEADINGS)))]
    scores: dict[str, list[float]] = {}
    for row in games:
        if row.normalised:
            scores.setdefault(published_name(row.env), []).extend(row.normalised)
    runs = sum(map(len, scores.values()))
    if runs < 2:
        return parts
    over_all = [_estimate_cells(f"interquartile mean of {runs} runs", interquartile_mean_of_runs(scores))]
    missing = [game for game in ATARI_5 if game not in scores]
    if not missing:
        over_all.append(_estimate_cells("Atari-5's estimate of the median of 57 games", atari5_median_of_runs(scores)))
        for place, agent in enumerate(AGENTS):
            published = {game: human_normalised(game, PUBLISHED[game].agents[place] or 0.0) or 0.0 for game in ATARI_5}
            estimate = atari5_median_of_runs({game: [value] for game, value in published.items()})
            over_all.append(_estimate_cells(f"the same for {agent}", estimate))
    parts.append(table(over_all, ("human-normalised", "value", "95% interval over seeds"), right=(1, 2)))
    if 0 < len(missing) < len(ATARI_5):
        parts.append([f"Atari-5's estimate of the median of 57 games needs {', '.join(missing)} too."])
    return parts


def _cells(row: GameRow) -> list[str]:
    several = len(row.returns) > 1
    return [
        game_name(row.env),
        str(len(row.returns)),
        count(row.agent_steps),
        number(float(np.mean(row.returns))),
        number(min(row.returns)) if several else NOTHING_YET,
        number(max(row.returns)) if several else NOTHING_YET,
        percent(float(np.mean(row.normalised)) if row.normalised else None),
        *(number(value) for value in _published(row.env) or (None,) * len(AGENTS)),
    ]


def _published(env: str) -> tuple[float | None, ...]:
    scores = PUBLISHED.get(published_name(env))
    return () if scores is None else scores.agents


def _estimate_cells(name: str, estimate: Estimate) -> list[str]:
    interval = estimate.interval
    between = NOTHING_YET if interval is None else f"{percent(interval[0])} to {percent(interval[1])}"
    return [name, percent(estimate.value), between]


if __name__ == "__main__":
    run_command(main, USAGE, GameScoreOptions)
