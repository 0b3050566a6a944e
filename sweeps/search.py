"""Searches flags with Optuna. Imported only for a sweep with "search": the package is optional."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from options.rules import UsageError
from run_files.job_runs import report_of_job
from sweeps.files import DamagedFiles, has_reports, resumable
from sweeps.plan import SweepRun, checked_run
from sweeps.search_plan import Range, SearchPlan
from sweeps.state import DONE, FAILED, PRUNED, REFUSED, SweepState
from sweeps.step_values import StepValues

OBJECTIVE = "return_mean"  # of the last report


class Search:
    """The trials of a search: restored from the sweep's state, then chosen one by one by Optuna's sampler.

    The objective is the mean return of a run's last report. Nothing but `sweep.json` is kept: Optuna's study is made
    again from it. The sampler of each trial has a seed of its own, made from the search's seed and the trial's number,
    so a search that goes on draws the same values as one that was never interrupted.
    """

    def __init__(self, plan: SearchPlan, folder: Path, state: SweepState, damaged: DamagedFiles) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._plan = plan
        self._folder = folder
        self._state = state
        self._damaged = damaged
        self._space = {name: _distribution(one) for name, one in plan.ranges.items()}
        self._study = optuna.create_study(direction="maximize", pruner=_pruner(plan.pruner))
        self._runs: list[SweepRun] = []
        self._open: dict[str, tuple[Trial, StepValues]] = {}  # trials of which Optuna does not know the end
        self._check_same_search()
        self._forget_failed_starts()
        for name, entry in state.runs.items():
            self._restore(name, entry)

    @property
    def runs(self) -> Sequence[SweepRun]:
        return self._runs

    @property
    def runs_of_table(self) -> Sequence[SweepRun]:
        return self._runs

    @property
    def total(self) -> int:
        return max(self._plan.trials - self._refused, len(self._runs))

    @property
    def _refused(self) -> int:
        return len(self._study.trials) - len(self._runs)

    @property
    def has_more(self) -> bool:
        return len(self._study.trials) < self._plan.trials

    def next_run(self) -> SweepRun | None:
        """A new trial. Values that main.py refuses together count as failed trials, and others are drawn."""
        while self.has_more:
            number = len(self._study.trials)
            name = f"trial_{number:03d}"
            self._study.sampler = _sampler(self._plan.sampler, number)
            trial = self._study.ask(self._space)
            flags = {**self._plan.flags, **trial.params}
            try:
                run = checked_run(name, flags)
            except UsageError as error:
                self._study.tell(trial, state=TrialState.FAIL)
                self._state.runs[name] = {"flags": flags, "status": REFUSED, "last_lines": [str(error)]}
                continue
            self._state.add(run)
            self._state.runs[name]["values"] = {}
            self._add(run, trial)
            return run
        return None

    def is_hopeless(self, run: SweepRun) -> bool:
        if run.name not in self._open:
            return False
        trial, _ = self._open[run.name]
        return self._report_new_values(run) and trial.should_prune()

    def ended(self, run: SweepRun, status: str) -> None:
        if run.name not in self._open:
            return
        self._report_new_values(run)
        trial, _ = self._open.pop(run.name)
        entry = self._state.runs[run.name]
        entry["objective"] = objective = self._last_return(run)
        if status == DONE and objective is not None:
            self._study.tell(trial, objective)
        else:
            self._study.tell(trial, state=TrialState.PRUNED if status == PRUNED else TrialState.FAIL)

    def differing_flags(self, run: SweepRun) -> str:
        return ", ".join(f"{name}={run.flags[name]}" for name in self._space)

    def _last_return(self, run: SweepRun) -> float | None:
        newest = report_of_job(self._folder / run.name, self._damaged.add)
        value = None if newest is None else newest[1].get(OBJECTIVE)
        return float(value) if isinstance(value, int | float) else None

    def _report_new_values(self, run: SweepRun) -> bool:
        """Pass what the run has written since the last call to Optuna; whether there was anything."""
        trial, values = self._open[run.name]
        new = values.read_new(self._folder / run.name)
        for step, value in new.items():
            trial.report(value, step)
            self._state.runs[run.name]["values"][str(step)] = value
        return bool(new)

    def _add(self, run: SweepRun, trial: Trial) -> None:
        self._runs.append(run)
        reached = max(map(int, self._state.runs[run.name]["values"]), default=0)
        self._open[run.name] = trial, StepValues(self._plan.pruner["interval_steps"], reached, self._damaged)

    def _check_same_search(self) -> None:
        """Raise a UsageError if the folder holds another search, or no search."""
        if self._state.runs and self._state.search is None:
            self._state.refuse_others([])
        definition = json.loads(json.dumps(self._plan.definition))
        before = self._state.search if self._state.search is not None else definition
        before = {"stop_at_return": definition["stop_at_return"], **before}  # older versions did not write it
        for key in definition:
            if definition[key] != before.get(key):
                raise UsageError(
                    f"--sweep_dir={self._folder} holds a search with another {key}; another --sweep_dir, or the same "
                    f"{key} as before, would be right."
                )
        self._state.search = definition

    def _forget_failed_starts(self) -> None:
        """Forget the last trials if they failed before their first report: whatever stopped them, they chose nothing.

        They are drawn again, by all that is known then. Earlier ones stay, because others were drawn after them.
        """
        for name, entry in reversed(list(self._state.runs.items())):
            job_folder = self._folder / name
            if entry["status"] != FAILED or has_reports(job_folder) or resumable(job_folder) is not None:
                return
            del self._state.runs[name]

    def _restore(self, name: str, entry: Mapping[str, Any]) -> None:
        """Add a trial of an earlier start to the study, in the order of their numbers."""
        try:
            params = {flag: entry["flags"][flag] for flag in self._space}
            values = {int(step): float(value) for step, value in entry.get("values", {}).items()}
            ended = self._ended_trial(params, values, entry)
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self._state.damaged() from None
        if entry["status"] == REFUSED:
            self._study.add_trial(create_trial(params=params, distributions=self._space, state=TrialState.FAIL))
            return
        run = checked_run(name, {**self._plan.flags, **params})
        self._state.add(run)
        if ended is not None:
            self._study.add_trial(ended)
            self._runs.append(run)
            return
        self._study.enqueue_trial(params)
        trial = self._study.ask(self._space)
        for step, value in values.items():
            trial.report(value, step)
        self._add(run, trial)

    def _ended_trial(
        self, params: Mapping[str, Any], values: Mapping[int, float], entry: Mapping[str, Any]
    ) -> FrozenTrial | None:
        """The trial as Optuna was told of its end; None if it goes on."""
        states = {DONE: TrialState.COMPLETE, PRUNED: TrialState.PRUNED}
        if entry["status"] not in states or "objective" not in entry:
            return None
        objective = entry["objective"]
        is_complete = entry["status"] == DONE and objective is not None
        state = TrialState.FAIL if entry["status"] == DONE and not is_complete else states[entry["status"]]
        return create_trial(
            params=dict(params),
            distributions=self._space,
            value=float(objective) if is_complete else None,
            state=state,
            intermediate_values=dict(values),
        )


def _distribution(one: Range) -> BaseDistribution:
    if one.choices:
        return CategoricalDistribution(one.choices)
    if one.kind is int:
        return IntDistribution(int(one.low), int(one.high), log=one.log, step=int(one.step or 1))
    return FloatDistribution(one.low, one.high, log=one.log, step=one.step)


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
