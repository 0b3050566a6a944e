"""Resuming a run from a checkpoint: exactly, if everything was saved; otherwise with new games."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from agents.learner import Learner
from agents.torsos.own_torso import note_on_source
from option_flags import Config
from replay.batch_mix import Mix
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import (
    BEST_EVAL,
    Checkpoint,
    checkpoint_name,
    link,
    refusing_foreign_content,
    write_checkpoint,
)
from run_files.metrics import METRICS, last_report
from run_files.run_folder import BEST, CHECKPOINTS, remove_abandoned
from training.best_so_far import BestSoFar
from training.counters.interval import without_draws, without_interval
from training.counters.progress import Progress
from training.saved_state import SavedReplays, note_on_games, read_saved_replays, saved_games


class PlannedUpdates(NamedTuple):
    """The updates that λ of the replays depends on, and those of the learning-rate schedule."""

    of_run: int
    of_schedule: int


@dataclass
class Resume:
    """What a run takes over from its parent, the run that it resumes; nothing without a parent."""

    parent: Checkpoint | None
    plan: PlannedUpdates
    best: BestSoFar
    replays: SavedReplays
    in_flight: dict[str, Any] | None  # the workers' games and untaken unrolls; None: new games begin
    lines: list[str]  # for the user: what is resumed, and what is not

    @property
    def count(self) -> int:
        """How many runs this one continues, one after the other."""
        return 0 if self.parent is None else int(self.parent.content["resumes"]) + 1

    @property
    def planned_updates(self) -> int:
        return self.plan.of_run

    @property
    def schedule_updates(self) -> int:
        return self.plan.of_schedule

    @property
    def updates(self) -> int:
        """Those that the parent has made."""
        return 0 if self.parent is None else self.parent.updates

    def notes(self) -> list[str]:
        return self.lines

    def share_plan(self, from_first: Callable[[PlannedUpdates], PlannedUpdates]) -> None:
        """Take over the plan of the first learner. The others may have counted some steps more or fewer."""
        self.plan = from_first(self.plan)

    def described(self) -> dict[str, Any] | None:
        """The parent's entry in config.json. Up to its `agent_steps`, the curves of this run are the parent's."""
        if self.parent is None:
            return None
        path, run = self.parent.path.absolute(), self.parent.run_folder.absolute()
        steps, updates = self.parent.agent_steps, self.parent.updates
        return {"run": str(run), "checkpoint": str(path), "agent_steps": steps, "updates": updates}

    def copy_checkpoints(self, checkpoints: Path, config: Config) -> None:
        """Copy the parent's checkpoint into the new run, so that this run can be resumed before it has saved.

        The parent's best checkpoints are copied too, and stay the best until this run has better ones.
        """
        if self.parent is None:
            return
        path = self.parent.path
        remove_abandoned(path.parent)
        if self.replays.kept is not None and config.saves_replays:
            link(self.replays.kept, checkpoints / self.replays.kept.name)
        own = {
            "options": config.flags(),
            "planned_updates": self.planned_updates,
            "progress": inherited_progress(self.parent, config) | self.best.state_dict(),
            "in_flight": self.in_flight,
        }
        write_checkpoint(checkpoints / checkpoint_name(self.parent.updates), {**self.parent.content, **own})
        # Beside a checkpoint elsewhere, such files may be of another run.
        is_in_run = path.parent.name == CHECKPOINTS and self.parent.config.environment == config.environment
        for best in (
            (BEST, BEST_EVAL) if is_in_run else ()
        ):  # last: a folder with these alone would be resumed from them
            if (path.parent / best).exists():
                link(path.parent / best, checkpoints / best)

    def restore_progress(self, progress: Progress, config: Config) -> None:
        if self.parent is not None:
            with refusing_foreign_content(self.parent):
                progress.load_state_dict(inherited_progress(self.parent, config))

    def restore(self, learner: Learner, mix: Mix) -> None:
        """Load the learner's state, and the replays if they were saved."""
        if self.parent is None:
            return
        with refusing_foreign_content(self.parent):
            learner.load_state_dict(self.parent.content["learner"])
            if self.replays.mix is not None:
                mix.load_state_dict(self.replays.mix, with_queues=self.replays.with_queues)
                self.replays.mix = None  # ends the mapping of the file


def plan_resume(parent: Checkpoint | None, config: Config, layout: UnrollLayout, worker_count: int) -> Resume:
    """Decide what a run takes over from its parent. Reads the saved replays, and changes nothing."""
    plan = plan_updates(parent, config)
    if parent is None:
        return Resume(None, plan, BestSoFar(), SavedReplays(), None, [])
    same_environment = parent.config.environment == config.environment
    replays = read_saved_replays(parent, config, layout)
    in_flight = saved_games(parent, config, worker_count) if replays.with_queues else None
    best = BestSoFar(evaluated_steps=parent.agent_steps)
    if same_environment:
        best = BestSoFar.of_parent(parent, config.test.eval_period)
    lines = [
        f"resuming from {parent.path} at {parent.agent_steps:,} agent steps",
        *notes_on_options(parent, config, plan),
        *note_on_source(parent.content),
        *replays.notes,
        note_on_games(in_flight),
    ]
    return Resume(parent, plan, best, replays, in_flight, lines)


def plan_updates(parent: Checkpoint | None, config: Config) -> PlannedUpdates:
    """The first run plans for the runs that resume from it. A run with another --environment_max_steps than its
    parent, or with more or fewer steps for an update, plans again; otherwise its learning rate would reach its end
    too early or not at all.
    """
    chosen = config.optimizer.lr_scheduler_steps
    if parent is None:
        return PlannedUpdates(config.planned_updates, chosen or config.planned_updates)
    planned, before = int(parent.content["planned_updates"]), parent.config
    same_updates = config.agent_steps_per_update == before.agent_steps_per_update
    if not same_updates or config.run.environment_max_steps != before.run.environment_max_steps:
        steps_left = config.run.environment_max_steps - parent.agent_steps
        planned = parent.updates + max(1, int(steps_left / config.agent_steps_per_update))
    return PlannedUpdates(planned, chosen or planned)


def notes_on_options(parent: Checkpoint, config: Config, plan: PlannedUpdates) -> list[str]:
    """What the options of the run change, compared with the parent's."""
    notes = []
    if parent.config.environment != config.environment:
        notes.append("the best checkpoint and mean returns begin anew: the environment has other options")
    if config.run.stop_at_return is None and parent.reached_goal is not None:
        notes.append(f"--stop_at_return={parent.reached_goal:g} was reached, so the run goes on without it")
    schedule = config.optimizer
    if parent.config.optimizer.optimizer != schedule.optimizer:
        notes.append("the optimizer's moving averages begin anew: it is another one than the parent's")
    if schedule.lr_scheduler_steps and schedule.lr_end_value == 0 and parent.updates >= plan.of_schedule:
        notes.append(
            f"nothing more will be learned: the learning rate is 0 after {plan.of_schedule:,} updates; a "
            "larger --lr_scheduler_steps, or 0 for all planned updates, would be right"
        )
    return notes


def inherited_progress(parent: Checkpoint, config: Config) -> dict[str, Any]:
    """The parent's counters. Left out are an interval that it has reported, draws from other replays, and the returns
    of another environment."""
    progress: dict[str, Any] = parent.content["progress"]
    if parent.config.environment != config.environment:
        progress = {**progress, "recent_returns": [], "return_max": None, "return_min": None, "reached_goal": None}
    if not config.run.reproducible and _is_reported(parent):
        return without_interval(progress)
    same_replays = parent.config.replay.replay_parameters == config.replay.replay_parameters
    return progress if same_replays else without_draws(progress)


def _is_reported(parent: Checkpoint) -> bool:
    """Whether the parent has reported the steps up to its checkpoint. It has, unless it was killed."""
    try:
        report = last_report(parent.run_folder / METRICS)
    except (OSError, ValueError):  # missing or damaged: no reason to refuse the resume
        return False
    return report is not None and report.get("agent_steps") == parent.agent_steps
