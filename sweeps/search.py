"""A search: Optuna chooses the flags of each run from ranges. Imported only with "search": the package is optional."""

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from machine.program import command_of
from option_flags import OPTIONS, Config
from options.command_line import flag_words, unknown_flag
from options.rules import SWITCH, Rule, UsageError, between, one_of, shown, whole
from reports.number_format import number
from run_files.run_folder import report_of_job, run_of_job
from run_files.run_reader import RunReader
from sweeps.plan import FLAGS, NAME, RESERVED, Sweep, as_text, checked_keys, checked_run, merged_flags, refuse_flags
from sweeps.state import DONE, PRUNED, SweepRun, SweepState

Range: TypeAlias = FloatDistribution | IntDistribution | CategoricalDistribution

OBJECTIVE = "return_mean"  # of the last report
STUDY, STUDY_FILE = "search", "optuna.log"  # in the folder of the sweep

SEARCH_KEYS = {
    "name": NAME,
    "flags": FLAGS,
    "search": Rule(dict, 'be an object of ranges, such as {"lr": {"low": 1e-4, "high": 1e-3, "log": true}}', bool),
    "trials": whole(1),
    "sampler": Rule(dict, 'be an object, such as {"type": "tpe"}'),
    "pruner": Rule(dict, 'be an object, such as {"type": "median"}'),
    "seeds": Rule(
        list,
        "be a list of one whole number, such as [1]; train the best flags with more seeds afterwards",
        lambda seeds: len(seeds) == 1 and type(seeds[0]) is int and seeds[0] >= 0,
    ),
}
SAMPLER_KEYS = {"type": one_of("tpe", "random"), "startup_trials": whole(1), "seed": whole(0, 2**32 - 1)}
PRUNER_KEYS = {
    "type": one_of("median", "percentile", "none"),
    "percentile": between(0, 100),
    "startup_trials": whole(0),
    "warmup_steps": whole(0),
    "interval_steps": whole(1),
}
CHOICES = Rule(list, "be a list with at least one value", bool)
NOT_SEARCHED = {
    **RESERVED,
    "env": "returns of different games cannot be compared",
    "environment_max_steps": "returns after different numbers of steps cannot be compared",
    "stop_at_return": "returns that end runs cannot be compared",
    "stop_at": "runs with different ends cannot be compared",
    "seed": "a search would choose the luckiest seed",
    "flagfile": 'its place is among "flags"',
}


def plan_search(definition: object, given: Mapping[str, Any], in_file: Mapping[str, Any] = {}) -> "Search":
    """The checked search. Flags take precedence as in `plan_sweep`. Raises a UsageError."""
    defaults: dict[str, Any] = {"name": "search", "flags": {}, "trials": 20, "sampler": {}, "pruner": {}, "seeds": [1]}
    described = defaults | checked_keys("the sweep", definition, SEARCH_KEYS)
    sampler = checked_keys('the sweep\'s "sampler"', described["sampler"], SAMPLER_KEYS)
    pruner = checked_keys('the sweep\'s "pruner"', described["pruner"], PRUNER_KEYS)
    for_all = {**in_file, **given}
    refuse_flags(for_all, "on the command line", RESERVED)
    refuse_flags(described["flags"])
    on_line = dict.fromkeys(given, "the command line sets it, for all runs")
    refuse_flags(described["search"], 'in the sweep\'s "search"', {**on_line, **NOT_SEARCHED})
    seed = described["seeds"][0] if for_all.get("seed") is None else for_all["seed"]
    flags = merged_flags(described["flags"], in_file, given, {"seed": seed})
    space = {name: _distribution(name, entry) for name, entry in described["search"].items()}
    last = {
        name: values.choices[-1] if isinstance(values, CategoricalDistribution) else values.high
        for name, values in space.items()
    }
    # These values are checked before the first trial; others that are wrong only together, when a trial has them.
    config = checked_run("with the last value of each range", {**flags, **last}).config
    run = config.run
    steps = {"warmup_steps": run.environment_max_steps // 5, "interval_steps": max(1, run.environment_max_steps // 20)}
    complete = {
        **described,
        "sampler": {"type": "tpe", "startup_trials": 10, "seed": seed, **sampler},
        "pruner": {"type": "median", "percentile": 25.0, "startup_trials": 5, **steps, **pruner},
        # When a run ends must stay too, or the returns of old and new trials could not be compared.
        "ends": {name: getattr(run, name) for name in ("environment_max_steps", "stop_at_return", "stop_at")},
    }
    return Search(complete, flags, space, config)


def _distribution(name: str, entry: object) -> Range:
    """The range of one flag; the flag's own rule checks its ends."""
    subject = f'{name} in the sweep\'s "search"'
    if name not in OPTIONS:
        raise UsageError(f'the sweep\'s "search": {unknown_flag(name, OPTIONS)}')
    rule: Rule = OPTIONS[name].metadata["rule"]
    if rule.kind not in (int, float) or (isinstance(entry, dict) and "choices" in entry):
        choices = checked_keys(subject, entry, {"choices": CHOICES}).get("choices", [])
        return CategoricalDistribution([rule.checked(subject, as_text(choice)) for choice in choices])
    step = Rule(rule.kind, "be a number")
    values = checked_keys(subject, entry, {"low": rule, "high": rule, "log": SWITCH, "step": step})
    try:
        return FloatDistribution(**values) if rule.kind is float else IntDistribution(**values)
    except (TypeError, ValueError) as error:  # an end is missing, or Optuna refuses the range
        raise UsageError(f'{subject} must be a range from "low" to "high", not {shown(entry)} ({error}).') from None


class Search(Sweep):
    """The trials of a search, chosen one by one by Optuna's sampler.

    The objective is the mean return of a run's last report. Optuna keeps its study in the folder of the sweep. The
    sampler of each trial has a seed of its own, made from the search's seed and the trial's number, so a search that
    goes on draws the same values as one that was never interrupted.
    """

    def __init__(
        self,
        definition: Mapping[str, Any],  # checked and complete
        flags: Mapping[str, Any],  # of all trials
        space: Mapping[str, Range],
        config: Config,  # of the run with the last value of each range
    ) -> None:
        super().__init__(definition["name"], [], [config])
        self.definition, self.flags = definition, flags
        self.space: dict[str, BaseDistribution] = dict(space)
        self.trials = int(definition["trials"])
        self._refused: dict[str, str] = {}  # the errors of trials that were not started, by name
        self._reached: dict[str, int] = {}  # agent steps of the last value that Optuna has, by the name of the run

    def open(self, state: SweepState) -> None:
        """Continue the study of the folder, or begin one."""
        state.begin({key: self.definition[key] for key in ("search", "sampler", "pruner", "ends")})
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._folder = state.folder
        path = state.folder / STUDY_FILE
        if path.exists():  # without the last line of a killed sweep, if it is incomplete: Optuna would add to it
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        try:
            self._storage = JournalStorage(JournalFileBackend(str(path)))
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=STUDY,
                load_if_exists=True,
                direction="maximize",
                pruner=_pruner(self.definition["pruner"]),
            )
        except ValueError:
            raise UsageError(f"{path} is damaged; another --sweep_dir would be right.") from None
        for trial in self._study.trials:
            if (run := self._run_of(trial)) is not None:
                state.add(run)
                if ended := {TrialState.COMPLETE: DONE, TrialState.PRUNED: PRUNED}.get(trial.state):
                    state.runs[run.name]["status"] = ended
        self._state = state

    @property
    def total(self) -> int:
        return max(self.trials - len(self._refused), len(self.runs))

    def next_run(self) -> SweepRun | None:
        """A new trial. Values that main.py refuses together count as failed trials, and others are drawn."""
        while (number := len(self._study.trials)) < self.trials:
            self._study.sampler = _sampler(self.definition["sampler"], number)
            self._study.ask(self.space)
            if (run := self._run_of(self._study.trials[number])) is not None:
                self._state.add(run)
                return run
        return None

    def _run_of(self, trial: FrozenTrial) -> SweepRun | None:
        """The run of a trial, which is remembered. None if its values are refused, or were not all drawn in a kill."""
        name = f"trial_{trial.number:03d}"
        try:
            run = checked_run(name, merged_flags(self.flags, {key: trial.params[key] for key in self.space}))
        except (UsageError, LookupError) as why:
            self._refused[name] = str(why) if isinstance(why, UsageError) else "a kill came while its values were drawn"
            if not trial.state.is_finished():
                self._study.tell(trial.number, state=TrialState.FAIL)
            return None
        self.runs.append(run)
        return run

    def is_hopeless(self, run: SweepRun) -> bool:
        trial = self._report_values(run)
        return trial is not None and trial.should_prune()

    def ended(self, run: SweepRun, status: str) -> None:
        """A trial that failed stays open: the next command starts it again."""
        if status not in (DONE, PRUNED) or self._study.trials[_number(run)].state.is_finished():
            return
        self._report_values(run)
        _, objective = self._newest_return(run)
        if status == DONE and objective is not None:
            self._study.tell(_number(run), objective)
        else:
            self._study.tell(_number(run), state=TrialState.PRUNED if status == PRUNED else TrialState.FAIL)

    def _report_values(self, run: SweepRun) -> Trial | None:
        """Tell Optuna the returns at new multiples of `interval_steps`, where trials are compared; None without any."""
        interval = self.definition["pruner"]["interval_steps"]
        reached = self._reached.get(run.name)
        if reached is None:
            reached = max(self._study.trials[_number(run)].intermediate_values, default=0)
        steps, value = self._newest_return(run)
        self._reached[run.name] = max(reached, steps // interval * interval)
        if value is None or steps < reached + interval:
            return None
        study_id = self._storage.get_study_id_from_name(STUDY)
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(study_id, _number(run))
        trial = Trial(self._study, trial_id)
        reader = RunReader(run_of_job(self._folder / run.name) or self._folder, with_games=False)
        reader.refresh()
        returns = reader.history.curve(OBJECTIVE)
        for step in range(reached + interval, steps + 1, interval):
            trial.report(next(iter(returns.y[returns.x >= step].tolist()), value), step)
        return trial

    def _newest_return(self, run: SweepRun) -> tuple[int, float | None]:
        """The agent steps and the mean return of the newest report."""
        newest = report_of_job(self._folder / run.name)
        steps, value = (0, None) if newest is None else (newest[1].get("agent_steps"), newest[1].get(OBJECTIVE))
        return (steps, float(value)) if isinstance(value, int | float) and isinstance(steps, int) else (0, None)

    def in_order(self, rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """The best first; those without a mean return come last."""
        return sorted(rows, key=lambda row: -math.inf if row[OBJECTIVE] is None else row[OBJECTIVE], reverse=True)

    def differences(self, runs: Sequence[SweepRun]) -> list[str]:
        return [", ".join(f"{name} {run.flags[name]}" for name in self.space) for run in runs]

    def result_lines(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """About the best trial that reached its end, and about trials that were refused. `rows`: the best first."""
        lines = [f"{name} was not started: {error}" for name, error in self._refused.items()]
        best = next((row for row in rows if row["status"] == DONE and row[OBJECTIVE] is not None), None)
        if best is None:
            return [*lines, "no trial has reached its end with a mean return yet"]
        run = next(run for run in self.runs if run.name == best["name"])
        words = [*command_of("main.py"), "--op_mode=train", *flag_words(run.flags)]
        return [
            *lines,
            f"best of the trials that reached their end: {run.name} with a mean return of {number(best[OBJECTIVE])}: "
            f"{best['differs']}",
            f"train with its flags: {shlex.join(words)}",
        ]


def _number(run: SweepRun) -> int:
    return int(run.name.removeprefix("trial_"))


def _sampler(options: Mapping[str, Any], number: int) -> optuna.samplers.BaseSampler:
    """The sampler of one trial."""
    seed = int(np.random.SeedSequence([options["seed"], number]).generate_state(1)[0])
    if options["type"] == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.TPESampler(n_startup_trials=options["startup_trials"], seed=seed)


def _pruner(options: Mapping[str, Any]) -> optuna.pruners.BasePruner:
    if options["type"] == "none":
        return optuna.pruners.NopPruner()
    percentile = options["percentile"] if options["type"] == "percentile" else 50.0
    return optuna.pruners.PercentilePruner(percentile, options["startup_trials"], options["warmup_steps"])
