"""Which runs belong together: groups of equal configuration, named by the options in which they differ."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from typing import Any, NamedTuple

import numpy as np

from option_flags import OPTIONS, CheckpointOptions, LossOptions, ReportOptions, TestOptions, defaults_beside
from options.replay_options import A_REPLAY, REPLAY_KEYS, ReplaySpec, parse_replays
from options.rules import UsageError, counted, declared
from reports.panels import Line, colour_of, dashes
from run_files.run_reader import CHOSEN_NETWORK, Curve, History

# Options that do not influence learning, and the seed: runs of one group may differ in them.
IGNORED_OPTIONS = {
    *("op_mode", "load_model_url", "load_weights_only", "seed", "stop_at_return", "stop_at"),
    *("run_name", "tags", "results_dir", "worker_timeout", "worker_restart_budget"),
    *(item.name for options in (CheckpointOptions, ReportOptions, TestOptions) for item in fields(options)),
}
# Options without effect in a run that has no replay.
ONLY_WITH_REPLAY = {name for name, item in declared(LossOptions).items() if A_REPLAY in item.metadata["needs"]}
SCHEDULE = "lr_scheduler_steps"  # its length usually follows from other options
USUAL_KEYS = {"capacity": 1} | {item.name: item.default for item in fields(ReplaySpec) if item.default is not MISSING}
GRID_POINTS = 400
GREYS = ("0.45", "0.6", "0.7")
GREY_DASHES: Sequence[tuple[float, ...]] = ((), (4, 1.5), (1, 1.2), (6, 1.5, 1, 1.5))  # with GREYS, twelve looks


class Group(NamedTuple):
    """Runs of equal configuration; their seeds may differ."""

    name: str  # the options that differ from those of other groups
    env: str
    runs: tuple[History, ...]
    title: str = ""  # the name and the tags that all of its runs have, if those of another group are different

    @property
    def label(self) -> str:
        """The name, and the number of runs if there are several: as seeds, if no two have the same."""
        seeds = {run.options.get("seed") for run in self.runs}
        how_many = counted(len(self.runs), "seed" if len(seeds) == len(self.runs) else "run")
        return ", ".join(filter(None, (self.title, self.name, how_many if len(self.runs) > 1 else "")))


class Configuration(NamedTuple):
    """The options by which runs are compared. What is not a default is worth a name."""

    values: dict[str, Any]
    defaults: Mapping[str, Any]  # beside the environment, the protocol and the loss of the run

    @property
    def env(self) -> str:
        return str(self.values["env"])

    def has_default(self, name: str) -> bool:
        return bool(self.values[name] == self.defaults.get(name))

    def words(self, options: Sequence[str], *, with_defaults: bool = True) -> str:
        told = [name for name in options if with_defaults or not self.has_default(name)]
        return ", ".join(_in_few_words(name, self.values[name]) for name in told)


def group_runs(histories: Sequence[History]) -> list[Group]:
    """Group runs by configuration, in the order of the argument. A run that is given twice counts once.

    A run that another run of its group was resumed from is left out if the other run is longer: its curve is part of
    the other one.
    """
    groups: dict[Any, tuple[Configuration, list[History]]] = {}
    for history in each_once(histories):
        found = configuration(history.options, weights_from=history.weights_from)
        groups.setdefault(tuple(found.values.items()), (found, []))[1].append(history)
    names = what_differs([found for found, _ in groups.values()])
    titles = [_title(runs) for _, runs in groups.values()]
    telling = len(groups) == 1 or len(set(titles)) > 1
    return [
        Group(name, found.env, tuple(without_continued(runs)), title if telling else "")
        for name, title, (found, runs) in zip(names, titles, groups.values(), strict=True)
    ]


def each_once(histories: Sequence[History]) -> list[History]:
    return list({history.folder.resolve(): history for history in histories}.values())


def without_continued(runs: Sequence[History]) -> list[History]:
    """Leave out runs whose whole curve is part of another run."""
    return [
        run
        for run in runs
        if not any(run.folder.resolve() in other.ancestors and other.agent_steps >= run.agent_steps for other in runs)
    ]


def _title(runs: Sequence[History]) -> str:
    """`baseline (paper)`: what all runs have as their --run_name and their --tags."""
    name, tags = ({run.options.get(option) or "" for run in runs} for option in ("run_name", "tags"))
    words = (*(name if len(name) == 1 else ()), *(f"({each})" for each in tags if each and len(tags) == 1))
    return " ".join(filter(None, words))


def configuration(options: Mapping[str, Any], **more: Any) -> Configuration:
    """One that an older run does not have is its default. A cluster's address does not matter."""
    values = {name: options.get(name, item.default) for name, item in OPTIONS.items()}
    values = {name: str(value) if isinstance(value, list | dict) else value for name, value in values.items()}
    defaults = dict(defaults_beside(values))
    values["cluster"], defaults["cluster"] = values["cluster"] is not None, False
    with suppress(UsageError):  # settings of another version are compared as text
        for each in (values, defaults):
            each["replay_parameters"] = parse_replays(str(each["replay_parameters"]))
        if all(replay.type == "queue" for replay in values["replay_parameters"]):
            values |= {name: OPTIONS[name].default for name in ONLY_WITH_REPLAY}
    if values["network"] == "auto":
        values["network"] = defaults["network"] = options.get(CHOSEN_NETWORK, "auto")
    compared = {name: value for name, value in values.items() if name not in IGNORED_OPTIONS}
    return Configuration({**compared, **more}, defaults)


# --- Names ------------------------------------------------------------------------------------------------------------


def what_differs(configurations: Sequence[Configuration]) -> list[str]:
    """For each configuration, the options in which it differs from others of its game, as words.

    Options that are defaults everywhere, and the length of the learning-rate schedule, are named only where different
    configurations would have the same words otherwise.
    """
    differing = _differing(configurations)
    usual = [name for name in differing if all(each.has_default(name) for each in configurations)]
    words = [each.words([name for name in differing if name not in (*usual, SCHEDULE)]) for each in configurations]
    different = {tuple(each.values.items()) for each in configurations}
    if len({(each.env, text) for each, text in zip(configurations, words, strict=True)}) < len(different):
        return [each.words(differing) for each in configurations]
    return words


def what_is_unusual(configurations: Sequence[Configuration]) -> list[str]:
    """The same in short, for lists of many: without what is a default. Two configurations may have the same words."""
    differing = [name for name in _differing(configurations) if name != SCHEDULE]
    return [each.words(differing, with_defaults=False) for each in configurations]


def _differing(configurations: Sequence[Configuration]) -> list[str]:
    """The options in which configurations of the same game differ."""
    by_game: dict[str, list[Configuration]] = {}
    for each in configurations:
        by_game.setdefault(each.env, []).append(each)
    return [
        name
        for name in (configurations[0].values if configurations else ())
        if any(other.values[name] != first.values[name] for first, *others in by_game.values() for other in others)
    ]


def describe_replays(replays: Sequence[ReplaySpec]) -> str:
    """`0.5 queue + 0.5 elite (1,000, dist_function cos_dist)`: capacities, and the keys that are not the defaults.

    A queue alone is just `queue`. Its capacity matters little, and is told where it is not 1.
    """
    parts = []
    for replay in replays:
        facts = [] if replay.type == "queue" else [f"{replay.capacity:,}"]
        for key in REPLAY_KEYS[replay.type]:
            value = getattr(replay, key)
            if value != USUAL_KEYS.get(key, value) and (key != "capacity" or replay.type == "queue"):
                facts.append(_in_few_words(key, value))
        told = f" ({', '.join(facts)})" if facts else ""
        parts.append(f"{_number(replay.sample_ratio)} {replay.type}{told}")
    return " + ".join(parts).removeprefix("1 ")


def _in_few_words(name: str, value: Any) -> str:
    if name == "replay_parameters":
        return describe_replays(value) if isinstance(value, tuple) else str(value)
    if isinstance(value, bool):
        return name if value else f"no {name}"
    return f"{name} {_number(value) if isinstance(value, float) else value}"


def _number(value: float) -> str:
    """All digits."""
    return repr(float(value)).removesuffix(".0")


# --- Lines ------------------------------------------------------------------------------------------------------------


def looks(groups: Sequence[Group], grey: Collection[str] = ()) -> dict[str, Line]:
    """The line of each configuration in the charts of all games, by name, without its points.

    A configuration may have another number of seeds in each game; the largest is told.
    """
    labels = {group.name: group.label for group in sorted(groups, key=lambda group: len(group.runs))}
    names = dict.fromkeys(group.name for group in groups)
    coloured, other = ([name for name in names if (name in grey) == is_grey] for is_grey in (False, True))
    none = np.empty(0)
    found = {name: Line(labels[name], none, none, colour_of(i), dashes=dashes(i)) for i, name in enumerate(coloured)}
    for i, name in enumerate(other):
        style = GREY_DASHES[i % len(GREY_DASHES)]
        found[name] = Line(labels[name], none, none, GREYS[i % len(GREYS)], dashes=style, is_grey=True)
    return found


def line_of(group: Group, look: Line, curve: Callable[[History], Curve], *, to_end: bool = False) -> Line | None:
    """A run's own curve, or several seeds as one line, in a band from the lowest to the highest value.

    It is their mean in the range that all of them cover. A curve that ends before another begins has no such range with
    it, and is left out. With `to_end` it is their median to the end of the longest, where a curve that has ended counts
    with its last value. None if no run has a point.
    """
    curves = [found for found in map(curve, group.runs) if len(found.x)]
    if len(curves) < 2:
        return replace(look, x=curves[0].x, y=curves[0].y) if curves else None
    begin = max(each.x[0] for each in curves)
    drawn = curves if to_end else [each for each in curves if each.x[-1] >= begin]
    ends = [each.x[-1] for each in drawn]
    end = max(ends) if to_end else min(ends)
    x = np.linspace(begin, end, GRID_POINTS if end > begin else 1)
    values = np.stack([np.interp(x, each.x, each.y) for each in drawn])
    middle = np.median(values, axis=0) if to_end else values.mean(axis=0)
    low, high = values.min(axis=0), values.max(axis=0)
    return replace(look, x=x, y=middle, low=low, high=high, seeds=curves)
