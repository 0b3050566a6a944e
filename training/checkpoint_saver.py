"""Writes checkpoints and replay files when they are due, and never weights that are not finite."""

import time
from contextlib import suppress
from typing import Any

from agents.spaces import described_spaces
from processes.pool import RunFailedError, WorkersFailedError
from run_files import checkpoint as files
from run_files.replay_file import write_tensor_file
from run_files.run_folder import BEST, CHECKPOINTS, NUMBERED_REPLAYS
from training.run import Run

NOTHING, CHECKPOINT, WITH_REPLAYS = range(3)  # what is due
SNAPSHOT_SECONDS = 15.0  # longest wait for workers to finish their unrolls; a scheduler may kill the run after 30


class CheckpointSaver:
    """Writes checkpoints, and a link to the best one, into a run's folder. A full disk does not end the run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.folder = run.folder / CHECKPOINTS
        # Updates of the newest complete checkpoint, -1 without one; a resumed run starts with its parent's checkpoint.
        self.saved_updates = run.learner.updates if run.resume.count else -1
        self.failure = ""  # why the latest save failed; empty if it did not
        self.seconds = 0.0  # spent on saving
        self._tried_updates = run.learner.updates
        self._saved_at = self._replays_tried_at = time.monotonic()

    @property
    def has_saved(self) -> bool:
        """Whether there is a checkpoint to resume from, which nobody has deleted."""
        return self.saved_updates >= 0 and files.checkpoint_to_use(self.folder) is not None

    def due(self) -> int:
        """What to save because it is time to, or because a signal asks for it: NOTHING, CHECKPOINT or WITH_REPLAYS.

        A signal is answered once.
        """
        config, stop, now = self._run.config, self._run.stop, time.monotonic()
        replays_due = config.saves_replays and now - self._replays_tried_at > 60 * config.checkpoint.save_replay_minutes
        period_over = self._run.learner.updates - self._tried_updates >= config.checkpoint.save_model_period
        asked = stop.save_now
        if asked:
            stop.save_now = False  # cleared before saving, so that a signal during the save is not lost
        if asked or replays_due or period_over or now - self._saved_at > 60 * config.checkpoint.save_model_minutes:
            return WITH_REPLAYS if config.saves_replays and (asked or replays_due) else CHECKPOINT
        return NOTHING

    def save(self, with_replays: bool) -> None:
        """Write a checkpoint; if that fails, announce it and return. Weights that are not finite end the run."""
        run, begun = self._run, time.monotonic()
        if self._is_parents_checkpoint_up_to_date():
            self._saved_at = self._replays_tried_at = begun
            return
        self.end_if_diverged()
        self.failure = ""
        self._tried_updates = run.learner.updates
        if with_replays:
            self._replays_tried_at = begun
        try:
            self.folder.mkdir(parents=True, exist_ok=True)  # somebody may have deleted it
            self._write(self._snapshot() if with_replays and run.config.run.reproducible else None)
            if with_replays and run.stop.stop_now:
                run.announce("the replays are not saved; the checkpoint is complete without them")
            elif with_replays:
                self._write_replays()
        except OSError as error:
            failure = f"no checkpoint could be written ({error.strerror})"
            kept = "the last complete one is kept" if self.has_saved else "there is none yet to go on from"
            run.announce(f"{failure}; {kept}")
            self.failure = failure if self.saved_updates != run.learner.updates else ""
        finally:
            self._saved_at = time.monotonic()
            self.seconds += self._saved_at - begun

    def _is_parents_checkpoint_up_to_date(self) -> bool:
        """Whether a resumed run has done nothing yet. It begins with a copy of its parent's checkpoint."""
        progress = self._run.progress
        is_new = self._run.resume.count > 0 and progress.agent_steps == progress.parent_steps
        return is_new and self._run.learner.updates == self.saved_updates

    def end_if_unsaved(self) -> None:
        """At the end of a run: a RunFailedError if its last checkpoint could not be written."""
        if self.failure:
            of_all = f"{self.saved_updates:,} of {self._run.learner.updates:,} updates"
            kept = f"the newest one has {of_all}" if self.has_saved else "the run cannot be resumed"
            raise RunFailedError(f"at the end, {self.failure}; {kept}.")

    def end_if_diverged(self) -> None:
        """Raise a RunFailedError if a loss since the latest report, or a weight, is not finite. Waits for the GPU.

        Nothing can be learned from then on.
        """
        diverged, learner = self._run.progress.interval.has_diverged, self._run.learner
        if not diverged and learner.is_finite():
            return
        what = "the loss is" if diverged else "the network's weights are"
        kept = "the earlier checkpoints are complete" if self.has_saved else "nothing was saved before"
        raise RunFailedError(
            f"{what} not finite any more (NaN or infinity) at update {learner.updates:,}, and the weights are not "
            f"saved; {kept}; a smaller --lr, --reward_clipping_method=abs_one_sign or the default "
            "--gradient_clip_by_norm_threshold would be right."
        )

    def _write(self, in_flight: dict[str, Any] | None) -> None:
        run, progress = self._run, self._run.progress
        best = {}
        if is_best := progress.is_best:
            best = {"best_return_mean": progress.return_mean, "best_return_steps": progress.agent_steps}
        path = self.folder / files.checkpoint_name(run.learner.updates)
        content = {
            "options": run.config.flags(),
            "spaces": described_spaces(run.layout),
            "unroll": run.layout.fingerprint,
            "resumes": run.resume.count,
            "planned_updates": run.resume.planned_updates,
            "learner": run.learner.state_dict(),
            "progress": {
                **progress.state_dict(run.learner.updates),
                **best,
                "inference_processes": run.machine.inference_processes,
            },
            "in_flight": in_flight,
        }
        files.write_checkpoint(path, content)
        self.saved_updates = run.learner.updates
        try:
            # First, because a file system without links needs room for a copy.
            files.keep_newest(self.folder, run.config.checkpoint.keep_checkpoints)
            if is_best:
                files.link(path, self.folder / BEST)
                progress.best_return_mean, progress.best_return_steps = progress.return_mean, progress.agent_steps
        except OSError as error:
            what = f"older ones could not be deleted, or {BEST} not be renewed"
            run.announce(f"the newest checkpoint is complete; {what} ({error.strerror})")

    def _snapshot(self) -> dict[str, Any] | None:
        """The environments and the unrolls not yet received; None if a worker does not finish in time."""
        stop, until = self._run.stop, time.monotonic() + SNAPSHOT_SECONDS
        self._run.announce("saving the games, when the workers have played their unrolls")
        try:
            snapshot = self._run.actors.pool.snapshot(lambda: stop.stop_now or time.monotonic() > until)
        except WorkersFailedError:  # save the checkpoint anyway; the next wait for the workers raises this again
            snapshot = None
        if snapshot is None:
            why = "skipped" if stop.stop_now else "not saved, because a worker died or was late"
            self._run.announce(f"the games are {why}: a resumed run will begin new ones")
        return snapshot

    def _write_replays(self) -> None:
        run, begun = self._run, time.monotonic()
        path = self.folder / files.replay_name(run.learner.updates)
        run.announce("saving the replays")
        content = {
            "options": run.config.flags(),
            "unroll": run.layout.fingerprint,
            "agent_steps": run.progress.agent_steps,
            "mix": run.mix.state_dict(),
        }
        try:
            size = write_tensor_file(path, content)
        except OSError as error:
            run.announce(
                f"the replays could not be written ({error.strerror}); the checkpoint is complete without them"
            )
            return
        for older in self.folder.glob(NUMBERED_REPLAYS):
            if older != path:
                with suppress(OSError):  # it is only in the way
                    older.unlink(missing_ok=True)
        seconds = time.monotonic() - begun
        run.announce(f"{time.strftime('%H:%M:%S')} replays saved: {size / 1e6:,.0f} MB in {seconds:.1f} s")
