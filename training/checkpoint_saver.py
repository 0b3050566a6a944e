"""When and what a run saves."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.learner import Learner
from machine.stop_signals import StopSignals
from option_flags import Config
from replay.mix import Mix
from replay.unroll_layout import UnrollLayout
from run_files import checkpoint as files
from run_files.replay_file import WriteCancelledError, write_tensor_file
from training.progress import Progress
from workers.failures import RunFailedError, WorkersFailedError
from workers.worker_pool import WorkerPool

DIVERGED = (
    "the network's weights are no numbers any more, and are not saved; a smaller --lr, or rewards that are clipped "
    "(--reward_clipping_method), would be right"
)
ROUND_PATIENCE = 2.5  # seconds that a save waits for unrolls under way


@dataclass
class Saver:
    """Writes checkpoints into a run's folder, beside the best one so far; a disk that is full does not end the run."""

    folder: Path  # of the checkpoints
    config: Config
    layout: UnrollLayout
    resumes: int
    planned_updates: int
    learner: Learner
    mix: Mix
    progress: Progress
    pool: WorkerPool
    stop: StopSignals
    announce: Callable[[str], None]

    def __post_init__(self) -> None:
        # Of the last whole checkpoint; a run that goes on begins with its parent's.
        self.saved_updates = self.learner.updates if self.resumes else -1
        self.seconds = 0.0
        self._tried_updates = self.learner.updates
        self._first_steps = self.progress.agent_steps
        self._saved_at = self._replays_tried_at = time.monotonic()

    def tick(self) -> None:
        """Called in every turn of the training loop; saves when it is time, or when a signal asks for it."""
        options, now = self.config.checkpoint, time.monotonic()
        replays_due = self.config.saves_replays and now - self._replays_tried_at > 60 * options.save_replay_minutes
        period_over = self.learner.updates - self._tried_updates >= options.save_model_period
        asked = self.stop.save_now
        if asked:
            self.stop.save_now = False  # before it is done, so that a signal that comes meanwhile counts
        if asked or replays_due or period_over or now - self._saved_at > 60 * options.save_model_minutes:
            self.save(with_replays=self.config.saves_replays and (asked or replays_due))

    def save(self, with_replays: bool) -> None:
        """Write a checkpoint; say so, and go on, where that fails. Weights that are no numbers end the run."""
        if self.resumes and self.progress.agent_steps == self._first_steps:
            return  # the parent's, carried over into this run, says all that there is to say
        if not self.learner.is_finite():
            kept = "the checkpoints from before are whole" if self.saved_updates >= 0 else "nothing was saved before"
            raise RunFailedError(f"{DIVERGED}; {kept}.")
        begun = time.monotonic()
        self._tried_updates = self.learner.updates
        if with_replays:
            self._replays_tried_at = begun
        try:
            self._write(self._in_flight() if with_replays and self.config.run.reproducible else None)
            self.saved_updates = self.learner.updates
            if with_replays:
                self._write_replays()
        except OSError as error:
            self.announce(
                f"no checkpoint could be written ({error.strerror}); the last whole one stays, training goes on"
            )
        finally:
            self._saved_at = time.monotonic()
            self.seconds += self._saved_at - begun

    def _write(self, in_flight: dict[str, Any] | None) -> None:
        best_before = self.progress.best_return_mean
        is_best = self.progress.judge()
        path = self.folder / files.checkpoint_name(self.learner.updates)
        content = {
            "options": self.config.flags(),
            "action_count": self.layout.action_count,
            "unroll": self.layout.fingerprint,
            "resumes": self.resumes,
            "planned_updates": self.planned_updates,
            "learner": self.learner.state_dict(),
            "progress": self.progress.state_dict(),
            "in_flight": in_flight,
        }
        try:
            files.write_checkpoint(path, content)
            if is_best:
                files.link(path, self.folder / files.BEST)
        except OSError:
            self.progress.best_return_mean = best_before  # what could not be kept is not the one to beat
            raise
        files.keep_newest(self.folder, self.config.checkpoint.keep_checkpoints)

    def _in_flight(self) -> dict[str, Any] | None:
        """The environments and the unrolls not yet taken; None where a worker does not come to rest."""
        try:
            in_flight = self.pool.in_flight(time.monotonic() + ROUND_PATIENCE, lambda: self.stop.hurried)
        except WorkersFailedError:  # the checkpoint matters more; who waits for the workers next will hear of it
            in_flight = None
        if in_flight is None:
            self.announce("a worker did not come to rest: a resume begins new games instead of going on exactly")
        return in_flight

    def _write_replays(self) -> None:
        begun = time.monotonic()
        path = self.folder / files.replay_name(self.learner.updates)
        state = {
            "unroll": self.layout.fingerprint,
            "agent_steps": self.progress.agent_steps,
            "mix": self.mix.state_dict(),
        }
        self.announce(
            "saving the replays; CTRL+C again leaves them out" if self.stop.requested else "saving the replays"
        )
        try:
            size = write_tensor_file(path, state, lambda: self.stop.hurried)
        except WriteCancelledError:
            self.announce("the replays are left out; the checkpoint is whole without them")
            return
        except OSError as error:
            self.announce(f"the replays could not be written ({error.strerror}); the checkpoint is whole without them")
            return
        for older in self.folder.glob("replays_*.bin"):
            if older != path:
                older.unlink(missing_ok=True)
        seconds = time.monotonic() - begun
        self.announce(f"{time.strftime('%H:%M:%S')} replays saved: {size / 1e6:,.0f} MB in {seconds:.1f} s")
