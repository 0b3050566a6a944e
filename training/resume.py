"""Going on where another run stopped: exactly where everything was saved, with new games otherwise."""

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agents.learner import Learner
from option_flags import OPTIONS, Config
from replay.mix import Mix
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import (
    BEST,
    BEST_EVAL,
    OWN_FLAGS,
    Checkpoint,
    InvalidCheckpointError,
    checkpoint_name,
    link,
    read_checkpoint,
    write_checkpoint,
)
from run_files.metrics import Report, last_report, read_metrics
from run_files.replay_file import DamagedFileError, read_tensor_file
from run_files.run_folder import remove_abandoned
from training.progress import Progress, without_draws, without_stretch
from workers.worker_pool import WorkerPool


class Resume:
    """What a parent's checkpoint gives to a run; without a parent, nothing."""

    def __init__(self, parent: Checkpoint | None, config: Config, layout: UnrollLayout, worker_count: int) -> None:
        self._parent = parent
        self._config = config
        self.count = 0 if parent is None else int(parent.content["resumes"]) + 1
        self.planned_updates, self.schedule_updates = plan_updates(parent, config)
        self._queues_too = False
        self._replay_file: Path | None = None  # for whoever goes on before this run has saved its own
        self._in_flight: dict[str, Any] | None = None
        self._replays: dict[str, Any] | None = None
        self._notes: list[str] = []
        if parent is not None:
            self._same_environment = all(
                parent.options.get(name, OPTIONS[name].default) == value  # what an older version did not know
                for name, value in asdict(config.environment).items()
            )
            self._look_at_options(parent, config)
            self._look_at_replays(parent, config, layout)
            self._look_at_in_flight(parent, config, worker_count)
            self._progress = self._progress_from(parent, config) | best_scores(parent)

    def described(self) -> dict[str, Any] | None:
        """The parent, for config.json: its curves count up to these steps."""
        if self._parent is None:
            return None
        path, run = self._parent.path.absolute(), self._parent.run_folder.absolute()
        steps, updates = self._parent.agent_steps, self._parent.updates
        return {"run": str(run), "checkpoint": str(path), "agent_steps": steps, "updates": updates}

    def notes(self) -> list[str]:
        """What a user should know of this resume."""
        if self._parent is None:
            return []
        return [f"going on from {self._parent.path} at {self._parent.agent_steps:,} agent steps", *self._notes]

    def carry_over(self, checkpoints: Path) -> None:
        """Begin a run's own checkpoints with the parent's: the run can be gone on from before it has saved anything.

        A parent's best policy is the best until there is a better one.
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
            "in_flight": self._in_flight,
        }
        content = {**self._parent.content, **own}
        write_checkpoint(checkpoints / checkpoint_name(self._parent.updates), content)
        for best in (BEST, BEST_EVAL):  # last: a folder with nothing but the best would be gone on with from there
            if (path.parent / best).exists():
                link(path.parent / best, checkpoints / best)

    def restore(self, learner: Learner, mix: Mix, progress: Progress) -> None:
        if self._parent is None:
            return
        learner.load_state_dict(self._parent.content["learner"])
        progress.load_state_dict(self._progress)
        if self._replays is not None:
            mix.load_state_dict(self._replays["mix"], queues_too=self._queues_too)
            self._replays = None

    def _progress_from(self, parent: Checkpoint, config: Config) -> dict[str, Any]:
        """The parent's progress as this run goes on with it: without what it has reported already, and without what
        it drew from other replays.
        """
        progress: dict[str, Any] = parent.content["progress"]
        if not config.run.reproducible and self._is_reported(parent):
            return without_stretch(progress)
        same_replays = parent.options["replay_parameters"] == config.replay.replay_parameters
        return progress if same_replays else without_draws(progress)

    def _is_reported(self, parent: Checkpoint) -> bool:
        """Whether the parent's last report was made after its last checkpoint, as by all that are not killed."""
        try:
            report = last_report(parent.run_folder / "metrics.jsonl")
        except (OSError, ValueError):  # missing or damaged, without which a run can go on
            return False
        return report is not None and report.get("agent_steps") == parent.agent_steps

    def put_back(self, pool: WorkerPool) -> None:
        """What lay between the workers and the learner, where the games go on exactly."""
        if self._in_flight is not None:
            pool.put_back(self._in_flight)

    def _look_at_options(self, parent: Checkpoint, config: Config) -> None:
        known = {*parent.options, *OWN_FLAGS}
        newer = [f"--{name}={value}" for name, value in config.flags().items() if name not in known]
        if newer:
            self._notes.append(f"options that its version did not have are now {' '.join(newer)}")

    def _look_at_replays(self, parent: Checkpoint, config: Config, layout: UnrollLayout) -> None:
        files = sorted(parent.path.parent.glob("replays_*.bin"))
        fitting = [path for path in files if path.name <= parent.replay_path.name]
        if not fitting:
            if config.replay.longest_warmup:
                self._notes.append("no saved replays: they fill anew")
            return
        wanted, saved = config.flags(), {"use_replay_compression": False, **parent.options}
        same = all(saved[name] == wanted[name] for name in ("replay_parameters", "use_replay_compression"))
        if not self._same_environment:
            self._notes.append("the replays fill anew: the saved ones are of other options of the environment")
            return
        try:
            replays = read_tensor_file(fitting[-1])
        except (DamagedFileError, OSError) as error:
            self._notes.append(f"the replays fill anew: {error}")
            return
        if not same or replays["unroll"] != layout.fingerprint:
            self._notes.append("the replays fill anew: the saved ones were of another shape or kind")
            return
        self._replays = replays
        self._replay_file = fitting[-1]
        if fitting[-1] == parent.replay_path and replays.get("agent_steps") == parent.agent_steps:
            # Queues have a size that goes with the batch's; the others have their own.
            self._queues_too = parent.options["batch_size"] == config.replay.batch_size
            if not self._queues_too:
                self._replay_file = None  # beside a checkpoint of the new size, its queues would be taken for fitting
        else:
            self._notes.append(f"replays are as old as {fitting[-1].name}")

    def _look_at_in_flight(self, parent: Checkpoint, config: Config, worker_count: int) -> None:
        in_flight = parent.content["in_flight"]
        same_workers = (
            in_flight is not None
            and len(in_flight["snapshots"]) == worker_count
            and len(in_flight["snapshots"][0]["seats"]) == config.workers.envs_per_worker
            and self._same_environment
        )
        if config.run.reproducible and same_workers and self._queues_too:
            self._in_flight = in_flight
            self._notes.append("the games go on exactly where they stopped")
        else:
            self._notes.append("new games begin")


def best_scores(parent: Checkpoint) -> dict[str, float | None]:
    """Those of its best policies, of which the files may be newer than the checkpoint."""
    progress, folder = parent.content["progress"], parent.path.parent
    return_mean, eval_mean = progress["best_return_mean"], progress.get("best_eval_mean")
    if (folder / BEST).exists():
        with suppress(InvalidCheckpointError):
            return_mean = read_checkpoint(folder / BEST).content["progress"]["best_return_mean"]
    if (folder / BEST_EVAL).exists():
        evaluations = _evaluations(parent.run_folder / "evaluations.jsonl")
        means = [eval_mean, *(row.get("best_eval_return_mean") for row in evaluations)]
        eval_mean = max((mean for mean in means if isinstance(mean, int | float)), default=None)
    return {"best_return_mean": return_mean, "best_eval_mean": eval_mean}


def _evaluations(path: Path) -> list[Report]:
    """Empty where the file is missing or damaged, without which a run can go on."""
    try:
        return read_metrics(path)
    except (OSError, ValueError):
        return []


def plan_updates(parent: Checkpoint | None, config: Config) -> tuple[int, int]:
    """The updates over which λ of the replays falls, and those over which the learning rate does.

    The first run of a lineage settles them, whatever becomes of its batches later; a run that is to be longer or
    shorter than its parent settles them anew, or it would go on at a learning rate of nothing.
    """
    chosen = config.optimizer.lr_scheduler_steps
    if parent is None:
        return config.planned_updates, chosen or config.planned_updates
    planned = int(parent.content["planned_updates"])
    if config.run.environment_max_steps != parent.options["environment_max_steps"]:
        steps_left = config.run.environment_max_steps - parent.agent_steps
        planned = parent.updates + max(1, steps_left // config.agent_steps_per_update)
    return planned, chosen or planned
