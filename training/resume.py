"""What a run begins with: everything of the run that it resumes, the weights of another one, or nothing."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from agents.learner import Learner
from agents.network import ActorCritic
from agents.spaces import check_observations, check_spaces
from option_flags import Config
from replay.mix import Mix
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import (
    BEST_EVAL,
    Checkpoint,
    checkpoint_name,
    link,
    refusing_foreign_content,
    write_checkpoint,
)
from run_files.metrics import EVALUATIONS, last_report
from run_files.replay_file import read_tensor_file
from run_files.run_folder import BEST, CHECKPOINTS, NUMBERED_REPLAYS, remove_abandoned

REPLAYS_DEPEND_ON = ("replay_parameters", "use_replay_compression")  # what fits them besides the unrolls' layout


class SavedReplays(NamedTuple):
    """The replays that a run begins with; they are empty where `mix` is None."""

    mix: dict[str, Any] | None = None  # the state of the mix; it maps the file
    with_queues: bool = False  # whether its queues and prepared batches are those of this run at this checkpoint
    path: Path | None = None


NO_REPLAYS = SavedReplays()


@dataclass
class Resume:
    """What a run takes over from its `parent`, the run that it resumes. Of `weights_from`, it takes the weights only.

    Without either, everything begins anew.
    """

    planned_updates: int  # λ of the replays depends on them
    schedule_updates: int  # the length of the learning-rate schedule
    notes: list[str] = field(default_factory=list)  # for the user: what is taken over, and what is not
    parent: Checkpoint | None = None
    weights_from: Checkpoint | None = None
    keeps_background: bool = False  # of those weights; in another game it is measured anew
    progress: dict[str, Any] | None = None  # the parent's counters, as far as they go on
    replays: SavedReplays = NO_REPLAYS
    in_flight: dict[str, Any] | None = None  # the workers' games and untaken unrolls; None: new games begin

    @property
    def count(self) -> int:
        """How many runs this one continues, one after the other."""
        return 0 if self.parent is None else int(self.parent.content["resumes"]) + 1

    @property
    def updates(self) -> int:
        """Those that the parent has made."""
        return 0 if self.parent is None else self.parent.updates

    def described(self) -> dict[str, Any]:
        """The entries in config.json. Up to the parent's `agent_steps`, the curves of this run are the parent's."""
        origin = self.weights_from and {**_origin(self.weights_from), "env": self.weights_from.options["env"]}
        return {
            "planned_updates": self.planned_updates,
            "parent": self.parent and _origin(self.parent),
            "weights_from": origin,
        }

    def copy_checkpoints(self, checkpoints: Path, config: Config) -> None:
        """Copy the parent's checkpoint into the new run, so that this run can be resumed before it has saved.

        The parent's best checkpoints are copied too, and stay the best until this run has better ones.
        """
        if self.parent is None:
            return
        path = self.parent.path
        remove_abandoned(path.parent)
        if self.replays.path is not None and config.saves_replays:  # needed until this run has saved its own
            link(self.replays.path, checkpoints / self.replays.path.name)
        own = {
            "options": config.flags(),
            "planned_updates": self.planned_updates,
            "progress": self.progress,
            "in_flight": self.in_flight,
        }
        write_checkpoint(checkpoints / checkpoint_name(self.parent.updates), {**self.parent.content, **own})
        # Beside a checkpoint elsewhere, such files may be of another run.
        is_in_run = path.parent.name == CHECKPOINTS and self.parent.config.environment == config.environment
        for best in (BEST, BEST_EVAL):  # last: a folder with these alone would be resumed from them
            if is_in_run and (path.parent / best).exists():
                link(path.parent / best, checkpoints / best)

    def restore_learner(self, learner: Learner) -> None:
        """Load what the parent has learned. `load_weights` has loaded the weights of another run."""
        if self.parent is not None:
            with refusing_foreign_content(self.parent):
                learner.load_state_dict(self.parent.content["learner"])
        elif self.weights_from is not None and self.keeps_background:
            learner.keep_background(self.weights_from.updates)

    def restore_replays(self, mix: Mix) -> None:
        """Load the replays if they were saved."""
        if self.replays.mix is not None:
            mix.load_state_dict(self.replays.mix, self.replays.with_queues)
            self.replays = NO_REPLAYS  # ends the mapping of the file


def load_weights(source: Checkpoint, network: ActorCritic, config: Config, layout: UnrollLayout) -> Resume:
    """Begin a new run with the weights of `source`, which are loaded into the network (--load_weights_only).

    If the games differ in their number of actions, the policy head keeps its fresh weights.
    """
    check_observations(source.content, layout)
    state, env = source.content["learner"]["network"], source.options["env"]
    adapted = network.adapted(state)
    network.load_saved(adapted)
    steps = f"{source.agent_steps:,} agent steps of {env}"
    notes = [f"weights from {source.path}, after {steps}; everything else begins anew"]
    if adapted is not state:
        actions = f"{network.policy_head.out_features} actions instead of {len(state['policy_head.bias'])}"
        notes.append(f"the policy head is new: {actions}")
    keeps_background = env == config.environment.env
    return Resume(*plan_updates(None, config), notes, weights_from=source, keeps_background=keeps_background)


def plan_resume(parent: Checkpoint, network: ActorCritic, config: Config, layout: UnrollLayout, workers: int) -> Resume:
    """Decide what a run with so many workers takes over from its parent. Reads the saved replays, and changes nothing
    but the weights of the network.
    """
    check_spaces(parent.content, layout)
    network.load_saved(parent.content["learner"]["network"])
    planned, schedule = plan_updates(parent, config)
    replays, notes_on_replays = read_saved_replays(parent, config, layout)
    in_flight = saved_games(parent, config, workers) if replays.with_queues else None
    restored = in_flight is not None and all(
        seat["game"] is not None for snapshot in in_flight["snapshots"] for seat in snapshot["seats"]
    )
    notes = [f"resuming from {parent.path} at {parent.agent_steps:,} agent steps"]
    if parent.config.environment != config.environment:
        notes.append("the best checkpoint and mean returns begin anew: the environment has other options")
    if config.run.goal is None and parent.reached_goal is not None:
        notes.append(f"{parent.reached_goal.flag} was reached, so the run goes on without it")
    notes += [*notes_on_replays, "the games continue exactly where they stopped" if restored else "new games begin"]
    progress = inherited_progress(parent, config)
    return Resume(planned, schedule, notes, parent, progress=progress, replays=replays, in_flight=in_flight)


def plan_updates(parent: Checkpoint | None, config: Config) -> tuple[int, int]:
    """The planned updates of a run, and those of its learning-rate schedule.

    The first run plans for the runs that resume from it. A run with another --environment_max_steps than its parent,
    or with more or fewer steps for an update, plans again; otherwise its learning rate would reach its end too early
    or not at all.
    """
    chosen = config.optimizer.lr_scheduler_steps
    if parent is None:
        return config.planned_updates, chosen or config.planned_updates
    planned, before = int(parent.content["planned_updates"]), parent.config
    same_updates = config.agent_steps_per_update == before.agent_steps_per_update
    if not same_updates or config.run.environment_max_steps != before.run.environment_max_steps:
        steps_left = config.run.environment_max_steps - parent.agent_steps
        planned = parent.updates + max(1, int(steps_left / config.agent_steps_per_update))
    return planned, chosen or planned


def inherited_progress(parent: Checkpoint, config: Config) -> dict[str, Any]:
    """The parent's counters and best results, without those of another environment.

    A new interval between reports begins, unless the run is to equal one without a break.
    """
    progress: dict[str, Any] = dict(parent.content["progress"])
    with suppress(OSError, ValueError):  # of evaluations that ended after the checkpoint, if there are any
        evaluation: dict[str, Any] = last_report(parent.run_folder / EVALUATIONS) or {}
        progress["best_eval_mean"] = evaluation.get("best_eval_return_mean", progress["best_eval_mean"])
        progress["evaluated_steps"] = evaluation.get("agent_steps", progress["evaluated_steps"])
    if parent.config.test.eval_period != config.test.eval_period:  # nothing is due at the start
        progress["evaluated_steps"] = parent.agent_steps
    progress["evaluated_steps"] = min(progress["evaluated_steps"], parent.agent_steps)
    same_environment = parent.config.environment == config.environment
    if not same_environment:
        progress |= {"recent_games": [], "return_max": None, "return_min": None, "reached_goal": None}
        progress["evaluated_steps"] = parent.agent_steps
    if not same_environment or parent.path.parent.name != CHECKPOINTS:  # elsewhere, best files may be of another run
        progress |= {"best_return_mean": None, "best_return_steps": None, "best_eval_mean": None}
    same_replays = parent.config.replay.replay_parameters == config.replay.replay_parameters
    return progress if config.run.reproducible and same_replays else {**progress, "interval": None}


def read_saved_replays(parent: Checkpoint, config: Config, layout: UnrollLayout) -> tuple[SavedReplays, list[str]]:
    """The newest replays that are not newer than the checkpoint, if they fit the run; and lines for the user."""

    def empty(why: str) -> tuple[SavedReplays, list[str]]:
        return NO_REPLAYS, [f"the replays start empty: {why}"]

    files = sorted(parent.path.parent.glob(NUMBERED_REPLAYS))
    path = next((path for path in reversed(files) if path.name <= parent.replay_path.name), None)
    if path is None:
        return empty("none were saved") if any(config.replay.warmup_unrolls) else (NO_REPLAYS, [])
    try:
        saved = read_tensor_file(path)
    except OSError as error:
        return empty(str(error))
    before, options = Config.from_flags(saved["options"]), config.replay
    same = all(getattr(before.replay, name) == getattr(options, name) for name in REPLAYS_DEPEND_ON)
    same &= before.environment == config.environment and before.learners.learners == config.learners.learners
    if not same or saved["unroll"] != layout.fingerprint:
        return empty(
            "the saved ones are of another layout or environment, of other --replay_parameters or other --learners"
        )
    is_newest = path == parent.replay_path and saved["agent_steps"] == parent.agent_steps
    # What a queue holds follows from the batch size and its uses; that of the other replays does not.
    same_queues = before.replay.batch_size == options.batch_size and before.batch_uses == config.batch_uses
    notes = [] if is_newest else [f"the replays are those of {path.name}, which is older than the checkpoint"]
    return SavedReplays(saved["mix"], is_newest and same_queues, path), notes


def saved_games(parent: Checkpoint, config: Config, worker_count: int) -> dict[str, Any] | None:
    """The workers' games, and the unrolls that the learner had not taken; None if new games begin."""
    in_flight: dict[str, Any] | None = parent.content["in_flight"]
    if in_flight is None or not config.run.reproducible or parent.config.environment != config.environment:
        return None
    snapshots = in_flight["snapshots"]
    same_workers = (
        len(snapshots) == worker_count
        and len(snapshots[0]["seats"]) == config.workers.envs_per_worker
        and parent.config.workers.exploring_share == config.workers.exploring_share
    )
    return in_flight if same_workers else None


def _origin(checkpoint: Checkpoint) -> dict[str, Any]:
    path, run = checkpoint.path.absolute(), checkpoint.run_folder.absolute()
    return {
        "run": str(run),
        "checkpoint": str(path),
        "agent_steps": checkpoint.agent_steps,
        "updates": checkpoint.updates,
    }
