"""Writes checkpoints and replay files when they are due."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from agents.spaces import described_spaces
from agents.torsos.own_torso import network_source
from processes.failures import RunFailedError, WorkersFailedError
from run_files import checkpoint as files
from run_files.replay_file import write_tensor_file
from run_files.run_folder import BEST, CHECKPOINTS, NUMBERED_REPLAYS
from training.divergence import end_if_diverged
from training.run import Run

NOTHING, CHECKPOINT, WITH_REPLAYS = range(3)  # what is due
SNAPSHOT_SECONDS = 15.0  # longest wait for workers to finish their unrolls; a scheduler may kill the run after 30
QUIET_SECONDS = 2.0  # of this wait, after which the run says so


class CheckpointSaver:
    """Writes checkpoints, and a link to the best one, into a run's folder. A full disk does not end the run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.folder = run.folder / CHECKPOINTS
        self.config, self.layout, self.stop, self.announce = run.config, run.layout, run.stop, run.announce
        self.learner, self.mix, self.progress, self.pool = run.learner, run.mix, run.progress, run.actors.pool
        self.resume_count, self.best = run.resume.count, run.resume.best
        # Updates of the newest complete checkpoint, -1 without one; a resumed run starts with its parent's checkpoint.
        self.saved_updates = self.learner.updates if self.resume_count else -1
        self.failure = ""  # why the latest save failed; empty if it did not
        self.seconds = 0.0  # spent on saving
        self._network_source = network_source(self.config.network.network)  # now: the file may change during the run
        self._tried_updates = self.learner.updates
        self._first_steps = self.progress.agent_steps
        self._saved_at = self._replays_tried_at = time.monotonic()

    @property
    def has_saved(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return self.saved_updates >= 0

    def due(self) -> int:
        """What to save because it is time to, or because a signal asks for it: NOTHING, CHECKPOINT or WITH_REPLAYS.

        A signal is answered once.
        """
        options, now = self.config.checkpoint, time.monotonic()
        replays_due = self.config.saves_replays and now - self._replays_tried_at > 60 * options.save_replay_minutes
        period_over = self.learner.updates - self._tried_updates >= options.save_model_period
        asked = self.stop.save_now
        if asked:
            self.stop.save_now = False  # cleared before saving, so that a signal during the save is not lost
        if not (asked or replays_due or period_over or now - self._saved_at > 60 * options.save_model_minutes):
            return NOTHING
        return WITH_REPLAYS if self.config.saves_replays and (asked or replays_due) else CHECKPOINT

    def save_if(self, due: int) -> bool:
        """Save what is due; return whether anything was."""
        if due != NOTHING:
            self.save(with_replays=due == WITH_REPLAYS)
        return due != NOTHING

    def save(self, with_replays: bool) -> None:
        """Write a checkpoint; if that fails, announce it and return. Weights that are not finite end the run."""
        if self._is_parents_checkpoint_up_to_date():
            self._saved_at = self._replays_tried_at = time.monotonic()
            return
        self.end_if_diverged()
        begun = time.monotonic()
        self.failure = ""
        self._tried_updates = self.learner.updates
        if with_replays:
            self._replays_tried_at = begun
        try:
            self._write(self._snapshot() if with_replays and self.config.run.reproducible else None)
            if with_replays:
                self._write_replays()
        except OSError as error:
            failure = f"no checkpoint could be written ({error.strerror})"
            kept = "the last complete one is kept" if self.has_saved else "there is none yet to go on from"
            self.announce(f"{failure}; {kept}")
            self.failure = failure if self.saved_updates != self.learner.updates else ""
        finally:
            self._saved_at = time.monotonic()
            self.seconds += self._saved_at - begun

    def _is_parents_checkpoint_up_to_date(self) -> bool:
        """Whether a resumed run has done nothing yet. It begins with a copy of its parent's checkpoint."""
        is_new = self.resume_count > 0 and self.progress.agent_steps == self._first_steps
        return is_new and self.learner.updates == self.saved_updates

    def end_if_unsaved(self) -> None:
        """At the end of a run: a RunFailedError if its last checkpoint could not be written."""
        if self.failure:
            kept = (
                f"the newest one has {self.saved_updates:,} of {self.learner.updates:,} updates"
                if self.has_saved
                else "the run cannot be resumed"
            )
            raise RunFailedError(f"at the end, {self.failure}; {kept}.")

    def end_if_diverged(self) -> None:
        """End the run if it has nothing to save any more: its loss or its weights are not finite."""
        end_if_diverged(self.config, self.learner, self.progress.interval, self.has_saved)

    def _write(self, in_flight: dict[str, Any] | None) -> None:
        progress, best_before = self.progress, self.best.return_mean
        is_best = self.best.update_best_return(
            progress.return_mean, len(progress.recent_returns), progress.return_window
        )
        path = self.folder / files.checkpoint_name(self.learner.updates)
        content = {
            "options": self.config.flags(),
            "action_count": self.layout.action_count,
            "spaces": described_spaces(self.layout),
            "network_source": self._network_source,
            "unroll": self.layout.fingerprint,
            "resumes": self.resume_count,
            "planned_updates": self._run.resume.planned_updates,
            "learner": self.learner.state_dict(),
            "progress": {**progress.state_dict(self.learner.updates), **self.best.state_dict()},
            "in_flight": in_flight,
        }
        try:
            files.write_checkpoint(path, content)
        except OSError:
            self.best.return_mean = best_before  # only a saved policy counts as the best
            raise
        self.saved_updates = self.learner.updates
        try:  # first, because a file system without links needs room for a copy
            files.keep_newest(self.folder, self.config.checkpoint.keep_checkpoints)
        except OSError as error:
            self.announce(f"older checkpoints could not be deleted ({error.strerror})")
        if is_best:
            self._link_best(path, best_before)

    def _link_best(self, path: Path, best_before: float | None) -> None:
        try:
            files.link(path, self.folder / BEST)
            self.best.return_steps = self.progress.agent_steps
        except OSError as error:
            self.best.return_mean = best_before
            self.announce(f"{BEST} could not be renewed ({error.strerror}); the newest checkpoint is complete")

    def _snapshot(self) -> dict[str, Any] | None:
        """The environments and the unrolls not yet received; None if a worker does not finish in time."""
        begun = time.monotonic()
        is_announced = False

        def give_up() -> bool:
            nonlocal is_announced
            if not is_announced and time.monotonic() - begun > QUIET_SECONDS:
                is_announced = True
                hint = "; CTRL+C again skips the games" if self.stop.requested else ""
                self.announce(f"waiting until the workers have played their unrolls{hint}")
            return self.stop.stop_now

        try:
            snapshot = self.pool.snapshot(begun + SNAPSHOT_SECONDS, give_up)
        except WorkersFailedError:  # save the checkpoint anyway; the next wait for the workers raises this again
            snapshot = None
        if snapshot is None:
            why = "skipped" if self.stop.stop_now else "not saved, because a worker died or was late"
            self.announce(f"the games are {why}: a resumed run will begin new ones")
        return snapshot

    def _write_replays(self) -> None:
        begun = time.monotonic()
        path = self.folder / files.replay_name(self.learner.updates)
        state = {
            "unroll": self.layout.fingerprint,
            "agent_steps": self.progress.agent_steps,
            "mix": self.mix.state_dict(),
        }
        if self.stop.stop_now:
            self.announce("the replays are not saved; the checkpoint is complete without them")
            return
        self.announce("saving the replays")
        try:
            size = write_tensor_file(path, state)
        except OSError as error:
            self.announce(
                f"the replays could not be written ({error.strerror}); the checkpoint is complete without them"
            )
            return
        for older in self.folder.glob(NUMBERED_REPLAYS):
            if older != path:
                with suppress(OSError):  # it is only in the way
                    older.unlink(missing_ok=True)
        seconds = time.monotonic() - begun
        self.announce(f"{time.strftime('%H:%M:%S')} replays saved: {size / 1e6:,.0f} MB in {seconds:.1f} s")
