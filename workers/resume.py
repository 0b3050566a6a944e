"""Going on where another run stopped: exactly where everything was saved, with new games otherwise."""

from typing import Any

from agents.checkpoint import Checkpoint
from agents.learner import Learner
from agents.tensor_file import DamagedFileError, read_tensor_file
from option_flags import Config
from replay.mix import BatchMix
from replay.trajectory import UnrollSpec
from workers.pool import WorkerPool
from workers.progress import Progress


class Resume:
    """What a parent's checkpoint gives to a run; without a parent, nothing."""

    def __init__(self, parent: Checkpoint | None, config: Config, spec: UnrollSpec, worker_count: int) -> None:
        self._parent = parent
        self.count = 0 if parent is None else int(parent.content["resumes"]) + 1
        self._in_flight: dict[str, Any] | None = None
        self._replays: dict[str, Any] | None = None
        self._notes: list[str] = []
        if parent is not None:
            self._look_at_replays(parent, config, spec)
            self._look_at_in_flight(parent, config, worker_count)

    def described(self) -> dict[str, Any] | None:
        """The parent, for config.json: its curves count up to these steps."""
        if self._parent is None:
            return None
        path = self._parent.path
        run = path.parent.parent if path.parent.name == "checkpoints" else path.parent
        steps, updates = self._parent.agent_steps, self._parent.updates
        return {"run": str(run), "checkpoint": str(path), "agent_steps": steps, "updates": updates}

    def notes(self) -> list[str]:
        """What a user should know of this resume."""
        if self._parent is None:
            return []
        return [f"going on from {self._parent.path} at {self._parent.agent_steps:,} agent steps", *self._notes]

    def restore(self, learner: Learner, mix: BatchMix, progress: Progress) -> None:
        if self._parent is None:
            return
        learner.load_state_dict(self._parent.content["learner"])
        progress.load_state_dict(self._parent.content["progress"])
        if self._replays is not None:
            mix.load_state_dict(self._replays["mix"], queues_too=self._replays_are_of_now)
            self._replays = None

    def snapshot(self, worker: int) -> dict[str, Any] | None:
        """Where a worker goes on; None for new games."""
        if self._in_flight is None:
            return None
        snapshot: dict[str, Any] = self._in_flight["snapshots"][worker]
        return snapshot

    def put_back_unrolls(self, pool: WorkerPool) -> None:
        if self._in_flight is not None and len(self._in_flight["unrolls"]):
            pool.put_back(self._in_flight["unrolls"].numpy())

    def _look_at_replays(self, parent: Checkpoint, config: Config, spec: UnrollSpec) -> None:
        files = sorted(parent.path.parent.glob("replays_*.bin"))
        fitting = [path for path in files if path.name <= parent.replay_path.name]
        self._replays_are_of_now = bool(fitting) and fitting[-1] == parent.replay_path
        if not fitting:
            self._notes.append("no saved replays: they fill anew")
            return
        same = parent.options["replay_parameters"] == config.replay.replay_parameters
        try:
            replays = read_tensor_file(fitting[-1])
        except (DamagedFileError, OSError) as error:
            self._notes.append(f"the replays fill anew: {error}")
            return
        if not same or replays["unroll"] != spec.fingerprint:
            self._notes.append("the replays fill anew: the saved ones were of another shape")
            return
        self._replays = replays
        if not self._replays_are_of_now:
            self._notes.append(f"replays are as old as {fitting[-1].name}")

    def _look_at_in_flight(self, parent: Checkpoint, config: Config, worker_count: int) -> None:
        in_flight = parent.content["in_flight"]
        same_workers = (
            in_flight is not None
            and len(in_flight["snapshots"]) == worker_count
            and len(in_flight["snapshots"][0]["seats"]) == config.workers.envs_per_worker
        )
        if config.run.reproducible and same_workers and self._replays is not None and self._replays_are_of_now:
            self._in_flight = in_flight
            self._notes.append("the games go on exactly where they stopped")
        else:
            self._notes.append("new games begin")
