"""The plan of a sweep: all its runs, made from a short definition and checked before the first one starts."""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from option_flags import OPTIONS, Config
from options.command_line import FlagFile, flags_of_file
from options.rules import Rule, UsageError, declared, matching, shown
from reports.compare_runs import configuration, what_differs
from sweeps.state import SweepRun, SweepState
from wrappers.make_environment import check_environment

LONGEST_NAME = 80


def _are_runs(runs: object) -> bool:
    groups = list(runs.values()) if isinstance(runs, dict) else runs
    return isinstance(groups, list) and bool(groups) and all(isinstance(group, dict) for group in groups)


NAME = matching(r"\w[\w.-]*", 'be a word for the folder, such as "lr"')
FLAGS = Rule(dict, 'be an object of flags that all runs share, such as {"env": "PongNoFrameskip-v4"}')
KEYS = {
    "name": NAME,
    "flags": FLAGS,
    "runs": Rule(
        object,
        'be a list of objects of flags, or an object of such objects by name, such as {"slow": {"lr": 1e-4}}',
        _are_runs,
    ),
    "grid": Rule(
        dict,
        'be an object of lists, such as {"lr": [1e-4, 1e-3], "gamma": [0.99, 0.995]}',
        lambda grid: all(isinstance(values, list) and values for values in grid.values()),
    ),
    "seeds": Rule(
        list,
        "be a list of whole numbers, such as [1, 2]",
        lambda seeds: bool(seeds) and all(type(seed) is int for seed in seeds),
    ),
}
OF_THE_SWEEP = "a sweep starts and continues its runs by itself"
RESERVED = {  # flags that a sweep sets itself
    **dict.fromkeys(("op_mode", "load_model_url", "load_weights_only"), OF_THE_SWEEP),
    "cluster": "--cluster of multi_train.py is for the whole sweep",
    "results_dir": "--sweep_dir sets the folder of a sweep and all its runs",
}
NOT_SHARED = {**RESERVED, "seed": 'the sweep\'s "seeds" lists them'}


class Sweep:
    """Runs that are known from the start. In a `Search`, they are chosen one by one."""

    def __init__(self, name: str, runs: Sequence[SweepRun], configs: Sequence[Config] = ()) -> None:
        """`configs`: those of its runs, or some of those that they may have."""
        self.name = name
        self.runs = list(runs)
        self.configs = configs or [run.config for run in runs]
        # Those that only the folder holds, from an earlier command, such as one with other seeds.
        self.earlier: list[SweepRun] = []

    def open(self, state: SweepState) -> None:
        """Add the runs to the state, or check that those in it are the same."""
        state.begin(None)
        for run in self.runs:
            state.add(run)
        self.earlier = state.others(self.runs)

    @property
    def total(self) -> int:
        """How many runs there will be."""
        return len(self.runs)

    def next_run(self) -> SweepRun | None:
        """A new run. None if there is no further one."""
        return None

    def is_hopeless(self, run: SweepRun) -> bool:
        """Whether a running run should be stopped, because others were better at the same number of steps."""
        return False

    def ended(self, run: SweepRun, status: str) -> None:
        """Learn that a run is `done`, `pruned` or `failed`. Called once or more for each such run."""

    def result_lines(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Lines about the rows of the table, at the end."""
        return []

    def in_order(self, rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """The rows of the table in the order in which they are shown."""
        return rows

    def differences(self, runs: Sequence[SweepRun]) -> list[str]:
        """What differs between the runs, without their seeds, for the table: a few words for each."""
        return what_differs([configuration(run.config.flags()) for run in runs])

    def cpus_of_a_run(self) -> int:
        """The CPUs of the run that uses the most: one for each worker, and for each thread of each of its learners.

        Without these numbers, a run would take all cores of its node, whatever was reserved for it.
        """
        runs = [(one.workers.worker_count, one.run.learner_threads, one.learners.learners) for one in self.configs]
        if not all(workers and threads and learners for workers, threads, learners in runs):
            raise UsageError(
                "--cluster must know the CPUs that each run uses; --worker_count=4 --learner_threads=1 (or others), "
                "and not --learners=0, would be right."
            )
        return max(workers + threads * learners for workers, threads, learners in runs)


def read_sweep(path: Path) -> object:
    """The content of a JSON file; `plan_sweep` checks it."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"--sweep={path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--sweep={path} must be a JSON file: {error}.") from None


def plan_sweep(definition: object, given: Mapping[str, Any], in_file: Mapping[str, Any] = {}) -> Sweep:
    """All runs: each of `runs`, with each point of `grid`, with each of `seeds`.

    The flags `given` on the command line beat those of the definition. Those of the flag file on the command line,
    `in_file`, beat only the `flags` of the definition. A UsageError says what is wrong.
    """
    defaults: dict[str, Any] = {"name": "sweep", "flags": {}, "runs": [{}], "grid": {}, "seeds": [1]}
    described = defaults | checked_keys("the sweep", definition, KEYS)
    for_all = {**in_file, **given}
    refuse_flags(for_all, "on the command line", RESERVED)
    variants = _variants(described["runs"], described["grid"])
    for layer in (described["flags"], *(layer for _, overrides in variants for layer in overrides)):
        refuse_flags(layer)
    seeds = described["seeds"] if for_all.get("seed") is None else [for_all["seed"]]
    runs = [
        checked_run(f"{name}_seed{seed}", merged_flags(described["flags"], in_file, *overrides, given, {"seed": seed}))
        for (name, overrides), seed in itertools.product(variants, seeds)
    ]
    for first, second in itertools.combinations(runs, 2):
        if first.name == second.name or first.config == second.config:
            raise UsageError(
                f"the sweep's runs {first.name} and {second.name} have the same name or the same flags; each value "
                'once in its list, an object of "runs" by name, and no flag of the grid on the command line, which is '
                "for all runs, would be right."
            )
    return Sweep(described["name"], runs)


def checked_keys(subject: str, entry: object, rules: Mapping[str, Rule]) -> dict[str, Any]:
    """The values of an object of the definition, each checked by its rule."""
    if not isinstance(entry, dict):
        raise UsageError(f"{subject} must be an object of {', '.join(rules)}, not {shown(entry)}.")
    for key in entry:
        if key not in rules:
            raise UsageError(f"{subject} has the unknown key {shown(key)}; it takes {', '.join(rules)}.")
    return {key: rules[key].checked(f'the "{key}" of {subject}', value) for key, value in entry.items()}


def refuse_flags(
    names: Iterable[str], where: str = "among the sweep's flags", reasons: Mapping[str, str] = NOT_SHARED
) -> None:
    """Raise a UsageError if one of these flags has a reason not to be there."""
    for name in names:
        if name in reasons:
            raise UsageError(f"{name} must not be {where}: {reasons[name]}; leave it out.")


def merged_flags(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Later layers beat earlier ones, and the flags of a layer its flag file.

    Lists and objects become the JSON text of a command line.
    """
    flags: dict[str, Any] = {}
    for layer in layers:
        if "flagfile" in layer:
            rule = declared(FlagFile)["flagfile"].metadata["rule"]
            path = rule.checked("the sweep's flagfile", layer["flagfile"])
            in_file = flags_of_file(path, OPTIONS)
            refuse_flags(in_file, f"among the flags of the sweep's flagfile {path}")
            flags |= in_file
        flags |= {name: as_text(value) for name, value in layer.items() if name != "flagfile"}
    return flags


def as_text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def checked_run(name: str, flags: dict[str, Any]) -> SweepRun:
    """The run of this name. Raises a UsageError that names it if main.py would refuse its flags."""
    try:
        config = Config.from_flags(flags)
        check_environment(config.environment, films=config.test.render)
    except UsageError as error:
        raise UsageError(f"the sweep's run {name}: {error}", error.details) from None
    return SweepRun(name, flags, config)


def _variants(runs: Any, grid: Mapping[str, Sequence[Any]]) -> list[tuple[str, tuple[dict[str, Any], dict[str, Any]]]]:
    """The name of every run without its seed; its own flags, and its point of the grid."""
    named = [*runs.items()] if isinstance(runs, dict) else [(_label(overrides), overrides) for overrides in runs]
    variants = []
    for (name, overrides), values in itertools.product(named, itertools.product(*grid.values())):
        point = dict(zip(grid, values, strict=True))
        label = "_".join(part for part in (name, _label(point)) if part) or "run"
        folder = re.sub(r"[^\w.=+-]+", "-", label).strip("-.")[:LONGEST_NAME]
        variants.append((folder, (overrides, point)))
    return variants


def _label(overrides: Mapping[str, Any]) -> str:
    parts = []
    for name, value in overrides.items():
        entries = value if isinstance(value, list) else []
        types = [str(entry.get("type")) for entry in entries if isinstance(entry, dict)]
        if name == "flagfile":  # the name of the file tells more than its folder
            parts.append(Path(str(value)).stem)
        else:
            parts.append("+".join(types) if types else f"{name}={value}")
    return "_".join(parts)
