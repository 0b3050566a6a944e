"""Resuming a run from a checkpoint: exactly, if everything was saved; otherwise with new games."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agents.learner import Learner
from agents.torsos.own_torso import note_on_source
from option_flags import OPTIONS, Config, ReplayOptions
from options.rules import counted
from replay.batch_mix import Mix
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import (
    BEST_EVAL,
    FOREIGN,
    OWN_FLAGS,
    Checkpoint,
    checkpoint_name,
    link,
    write_checkpoint,
)
from run_files.metrics import METRICS, last_report
from run_files.replay_content import check_replay_file, check_replays
from run_files.replay_file import DamagedFileError, read_tensor_file
from run_files.run_folder import BEST, CHECKPOINTS, NUMBERED_REPLAYS, remove_abandoned
from run_files.value_rules import ContentError
from training.best_so_far import BestSoFar
from training.counters.interval import without_draws, without_interval
from training.counters.progress import Progress
from workers.worker_pool import WorkerPool


class Resume:
    """What a run loads from its parent, the run that it resumes; nothing without a parent."""

    def __init__(
        self,
        parent: Checkpoint | None,
        config: Config,
        layout: UnrollLayout,
        worker_count: int,
        own_replays: ReplayOptions | None = None,  # of this learner, if there are several
    ) -> None:
        self._parent = parent
        self._config = config
        self._own_replays = own_replays or config.replay
        self.count = 0 if parent is None else int(parent.content["resumes"]) + 1
        self.planned_updates, self.schedule_updates = plan_updates(parent, config)
        self._with_queues = False
        self._replay_file: Path | None = None  # kept until this run has saved its own
        self.in_flight: dict[str, Any] | None = None  # the workers' games and untaken unrolls; None: new games begin
        self._replays: dict[str, Any] | None = None
        self._notes: list[str] = []
        self._same_environment = parent is not None and all(
            parent.options.get(name, OPTIONS[name].default) == value  # an older version may lack the option
            for name, value in asdict(config.environment).items()
        )
        if parent is not None and self._same_environment:
            self.best = BestSoFar.of_parent(parent, config.test.eval_period)
        else:
            self.best = BestSoFar(evaluated_steps=0 if parent is None else parent.agent_steps)
        if parent is not None:
            self._note_other_environment()
            self._note_reached_goal(parent, config)
            self._note_ended_schedule(parent, config)
            self._note_new_options(parent, config)
            if parent.options["optimizer"] != config.optimizer.optimizer:
                self._notes.append("the optimizer's moving averages begin anew: it is another one than the parent's")
            self._notes += note_on_source(parent.content)
            self._read_replays(parent, config, layout)
            self._read_in_flight(parent, config, worker_count)
            self._progress = self._progress_from(parent, config) | self.best.state_dict()

    def share_plan(self, from_first: Callable[[tuple[int, int]], tuple[int, int]]) -> None:
        """Take over the plan of the first learner. The others may have counted some steps more or fewer."""
        self.planned_updates, self.schedule_updates = from_first((self.planned_updates, self.schedule_updates))

    def described(self) -> dict[str, Any] | None:
        """The parent's entry in config.json. Up to its `agent_steps`, the curves of this run are the parent's."""
        if self._parent is None:
            return None
        path, run = self._parent.path.absolute(), self._parent.run_folder.absolute()
        steps, updates = self._parent.agent_steps, self._parent.updates
        return {"run": str(run), "checkpoint": str(path), "agent_steps": steps, "updates": updates}

    def notes(self) -> list[str]:
        """Lines for the user: what is resumed, and what is not."""
        if self._parent is None:
            return []
        return [f"resuming from {self._parent.path} at {self._parent.agent_steps:,} agent steps", *self._notes]

    def copy_checkpoints(self, checkpoints: Path) -> None:
        """Copy the parent's checkpoint into the new run, so that this run can be resumed before it has saved.

        The parent's best checkpoints are copied too, and stay the best until this run has better ones.
        """
        if self._parent is None:
            return
        path = self._parent.path
        remove_abandoned(path.parent)
        if self._replay_file is not None and self._config.saves_replays:
            link(self._replay_file, checkpoints / self._replay_file.name)
        own = {
            "options": self._config.flags(),
            "planned_updates": self.planned_updates,
            "progress": self._progress,
            "in_flight": self.in_flight,
        }
        content = {**self._parent.content, **own}
        write_checkpoint(checkpoints / checkpoint_name(self._parent.updates), content)
        # Beside a checkpoint elsewhere, such files may be of another run.
        kept = (BEST, BEST_EVAL) if self._same_environment and path.parent.name == CHECKPOINTS else ()
        for best in kept:  # last: a folder that holds only a best checkpoint would be resumed from it
            if (path.parent / best).exists():
                link(path.parent / best, checkpoints / best)

    @property
    def updates(self) -> int:
        """Those that the parent has made."""
        return 0 if self._parent is None else self._parent.updates

    def restore_progress(self, progress: Progress) -> None:
        if self._parent is not None:
            progress.load_state_dict(self._progress)

    def restore(self, learner: Learner, mix: Mix) -> None:
        if self._parent is None:
            return
        learner.load_state_dict(self._parent.content["learner"])
        if self._replays is not None:
            mix.load_state_dict(self._replays["mix"], with_queues=self._with_queues)
            self._replays = None

    def _progress_from(self, parent: Checkpoint, config: Config) -> dict[str, Any]:
        """The parent's progress. Left out are an interval that it has reported, draws from other replays, and the
        returns of another environment."""
        progress: dict[str, Any] = parent.content["progress"]
        if not self._same_environment:
            progress = {**progress, "recent_returns": [], "return_max": None, "return_min": None, "reached_goal": None}
        if not config.run.reproducible and self._is_reported(parent):
            return without_interval(progress)
        same_replays = parent.options["replay_parameters"] == config.replay.replay_parameters
        return progress if same_replays else without_draws(progress)

    def _is_reported(self, parent: Checkpoint) -> bool:
        """Whether the parent has reported the steps up to its checkpoint. It has, unless it was killed."""
        try:
            report = last_report(parent.run_folder / METRICS)
        except (OSError, ValueError):  # missing or damaged: no reason to refuse the resume
            return False
        return report is not None and report.get("agent_steps") == parent.agent_steps

    def restore_workers(self, pool: WorkerPool) -> None:
        """Restore the games, and the unrolls that the learner has not received, if they were saved."""
        if self.in_flight is not None:
            pool.restore(self.in_flight)

    def _note_other_environment(self) -> None:
        if not self._same_environment:
            self._notes.append("the best checkpoint and mean returns begin anew: the environment has other options")

    def _note_reached_goal(self, parent: Checkpoint, config: Config) -> None:
        goal = parent.content["options"].get("stop_at_return")
        window = int(parent.options.get("avg_buff_size", OPTIONS["avg_buff_size"].default))
        if config.run.stop_at_return is None and parent.has_reached(goal, window):
            self._notes.append(f"--stop_at_return={goal:g} was reached, so the run goes on without it")

    def _note_ended_schedule(self, parent: Checkpoint, config: Config) -> None:
        chosen = config.optimizer.lr_scheduler_steps
        if chosen and config.optimizer.lr_end_value == 0 and parent.updates >= self.schedule_updates:
            self._notes.append(
                f"nothing more will be learned: the learning rate is 0 after {self.schedule_updates:,} updates; a "
                "larger --lr_scheduler_steps, or 0 for all planned updates, would be right"
            )

    def _note_new_options(self, parent: Checkpoint, config: Config) -> None:
        known = {*parent.options, *OWN_FLAGS}
        values = {name: value for name, value in config.flags().items() if value is not None}
        newer = [f"--{name}={value}" for name, value in values.items() if name not in known]
        if newer:
            self._notes.append(f"options that the parent's version did not have: {' '.join(newer)}")

    def _read_replays(self, parent: Checkpoint, config: Config, layout: UnrollLayout) -> None:
        files = sorted(parent.path.parent.glob(NUMBERED_REPLAYS))
        fitting = [path for path in files if path.name <= parent.replay_path.name]
        if not fitting:
            if config.replay.longest_warmup:
                self._notes.append("the replays start empty: none were saved")
            return
        wanted, saved = config.flags(), {"use_replay_compression": False, "learners": 1, **parent.options}
        same = all(saved[name] == wanted[name] for name in ("replay_parameters", "use_replay_compression"))
        if saved["learners"] != wanted["learners"]:
            whose = counted(saved["learners"], "learner")
            self._notes.append(f"the replays start empty: the saved ones are those of {whose}")
            return
        if not self._same_environment:
            self._notes.append(
                "the replays start empty: the saved ones were made with other options of the environment"
            )
            return
        path = fitting[-1]
        try:
            replays = read_tensor_file(path)
            check_replay_file(replays)
            if not same or replays["unroll"] != layout.fingerprint:
                self._notes.append(
                    "the replays start empty: the saved ones have another layout or other --replay_parameters"
                )
                return
            is_newest = path == parent.replay_path and replays.get("agent_steps") == parent.agent_steps
            # What a queue holds follows from the batch size and its uses; that of the other replays does not.
            same_batches = parent.options["batch_size"] == config.replay.batch_size
            with_queues = is_newest and same_batches and _batches_of(parent.options).batch_uses == config.batch_uses
            check_replays(replays, self._own_replays, layout, with_queues, config.batch_uses)
        except (DamagedFileError, OSError) as error:
            self._notes.append(f"the replays start empty: {error}")
            return
        except ContentError as error:
            self._notes.append(f"the replays start empty: {path} {FOREIGN}: {error}")
            return
        self._replays = replays
        self._with_queues = with_queues
        prepared = replays["mix"]["prepared"] if with_queues else []
        if prepared and not config.replay.caching:
            self._notes.append(
                f"batches that were mixed ahead are dropped ({len(prepared)}), because this run has no --caching"
            )
        # With another batch size, the next resume would load its queues, which fit the old batch size.
        self._replay_file = path if with_queues or not is_newest else None
        if not is_newest:
            self._notes.append(f"the replays are those of {path.name}, which is older than the checkpoint")

    def _read_in_flight(self, parent: Checkpoint, config: Config, worker_count: int) -> None:
        in_flight = parent.content["in_flight"]
        same_workers = (
            in_flight is not None
            and len(in_flight["snapshots"]) == worker_count
            and len(in_flight["snapshots"][0]["seats"]) == config.workers.envs_per_worker
            and self._same_environment
        )
        if config.run.reproducible and same_workers and self._with_queues:
            self.in_flight = in_flight
            restored = all(seat["game"] is not None for each in in_flight["snapshots"] for seat in each["seats"])
            self._notes.append("the games continue exactly where they stopped" if restored else "new games begin")
        else:
            self._notes.append("new games begin")


def _batches_of(options: Mapping[str, Any]) -> Config:
    """A configuration with the batches of a run with these options, some of which older versions lack."""
    names = ("loss", "impact_uses", "impact_batches", "replay_parameters", "batch_size", "r_f_steps")
    return Config.from_flags({name: options[name] for name in names if name in options})


def plan_updates(parent: Checkpoint | None, config: Config) -> tuple[int, int]:
    """The updates that λ of the replays depends on, and those of the learning-rate schedule.

    The first run fixes both for the runs that resume from it. A run with another --environment_max_steps than its
    parent, or with more or fewer steps for an update, plans again; otherwise its learning rate would reach its end
    too early or not at all.
    """
    chosen = config.optimizer.lr_scheduler_steps
    if parent is None:
        return config.planned_updates, chosen or config.planned_updates
    planned = int(parent.content["planned_updates"])
    same_updates = config.agent_steps_per_update == _batches_of(parent.options).agent_steps_per_update
    if not same_updates or config.run.environment_max_steps != parent.options["environment_max_steps"]:
        steps_left = config.run.environment_max_steps - parent.agent_steps
        planned = parent.updates + max(1, int(steps_left / config.agent_steps_per_update))
    return planned, chosen or planned
