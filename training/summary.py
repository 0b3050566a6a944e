"""How far a run is, how it ended, and how it goes on: `summary.json`, and the last lines of the run."""

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from machine.capacity import usable_cores
from machine.program import command_of
from reports.hints import name_bottleneck
from reports.number_format import number
from reports.run_header import last_games
from run_files.checkpoint import checkpoint_to_use
from run_files.metrics import json_safe
from run_files.run_folder import CHECKPOINTS, SUMMARY, write_json
from training.checkpoint_saver import CheckpointSaver
from training.machine_load import MachineLoad
from training.run import Run

LEAST_SECONDS = 5.0  # between two reports that rewrite the file: it is synced to the disk while the learner waits


@contextmanager
def summarised(run: Run) -> Iterator[None]:
    """Write `summary.json` at the start and at the end of the block, where an error that leaves it is the reason."""
    write_summary(run)
    try:
        yield
    except BaseException as error:
        run.status = "failed"
        write_summary(run, str(error) or type(error).__name__)
        raise
    write_summary(run, why_ended(run))


def write_summary(run: Run, why: str | None = None, if_due: bool = False) -> None:
    """Write `summary.json` atomically; `why` tells why the run has ended. Of several learners, the first one writes it.

    With `if_due`, as after reports and while the run waits, it is written every few seconds: who is silent for long
    counts as lost. A file that cannot be written is tried again then.
    """
    progress, now = run.progress, time.monotonic()
    if not run.rank.is_first or (if_due and now - run.summary_written_at < LEAST_SECONDS):
        return
    run.summary_written_at = now
    checkpoint = checkpoint_to_use(run.folder / CHECKPOINTS)
    summary: dict[str, Any] = {
        "status": "running" if why is None else run.status,
        "why": why,
        **progress.counters(),
        "steps_per_second": progress.agent_steps / max(progress.seconds, 1e-9),
        "best_return_mean": progress.best_return_mean,
        "best_at_agent_steps": progress.best_return_steps,
        "best_eval_return_mean": progress.best_eval_mean,
        "checkpoint": checkpoint and str(checkpoint.relative_to(run.folder)),
        "go_on": checkpoint and go_on_command(run),
    }
    with suppress(OSError):
        write_json(run.folder / SUMMARY, json_safe(summary))


def why_ended(run: Run) -> str:
    """Why a run without an error has ended."""
    progress, options = run.progress, run.config.run
    if run.status != "finished":
        return "a signal asked the run to stop"
    if progress.goal_reached:
        return goal_reached(run)
    steps = f"--environment_max_steps={options.environment_max_steps}"
    return f"a learner has used its share of {steps}" if progress.needs_steps else f"{steps} is reached"


def goal_reached(run: Run) -> str:
    games = last_games(run.progress.return_window)
    goal = run.config.run.goal
    assert goal is not None
    return f"the mean {goal.name} of {games} reached {goal.flag}"


def last_lines(run: Run, saver: CheckpointSaver, load: MachineLoad) -> list[str]:
    """How far a run got and what limited its speed. The very last line is the command that resumes it."""
    progress = run.progress
    mean = progress.return_mean
    games = "no game ended" if mean is None else f"mean return of the last games {number(mean)}"
    speed = progress.agent_steps / max(progress.seconds, 1e-9)
    ended = "stopped with CTRL+C or a signal" if run.status == "stopped" else run.status
    lines = [
        f"{ended} at {progress.agent_steps:,} agent steps ({progress.frames:,} frames) and "
        f"{progress.updates:,} updates after {progress.seconds:,.0f} s, {speed:,.0f} steps/s; {games}",
        goal_reached(run) if progress.goal_reached else "",
        never_scored(progress.episodes) if progress.never_scored else "",
        bottleneck(run, load),
        f"metrics.jsonl, episodes.csv and checkpoints are in {run.folder}; saving took {saver.seconds:.1f} s",
        f"resume with: {go_on_command(run)}"
        if saver.has_saved
        else "nothing could be saved, so the run cannot be resumed",
    ]
    return [line for line in lines if line]


def bottleneck(run: Run, load: MachineLoad) -> str:
    """A sentence about what limited the speed; or why nothing was learned, if this run made no update."""
    steps = run.progress.agent_steps - run.progress.parent_steps
    if run.progress.updates == run.resume.updates and steps < run.config.steps_to_learn:
        return f"nothing was learned: the first update needs {run.config.steps_to_learn:,} agent steps"
    options, pace = run.config, ""
    if options.run.reproducible:
        pace = "workers and learner take turns (--reproducible)"
    elif options.environment.in_real_time:
        pace = "the games are played by the clock"
    return name_bottleneck(
        run.progress.time_shares_of_run(),
        load.worker_shares(),
        *load.cores_in_use(usable_cores()),
        gpu=run.machine.device.type == "cuda",
        pace=pace,
    )


def never_scored(games: int) -> str:
    """What a run says in whose games nothing was ever scored."""
    these = "the only game so far" if games == 1 else f"each of the {games:,} games so far"
    return (
        f"{these} ended with a return of 0, and without rewards there is nothing to learn from; "
        'docs/tuning.md says what helps, under "Games without rewards"'
    )


def go_on_command(run: Run) -> str:
    """The command that resumes a run; for twice as many steps if it has made all of them."""
    steps = run.progress.agent_steps
    more_steps = steps + max(steps, run.config.steps_to_learn)
    more = "" if run.progress.needs_steps else f" --environment_max_steps={more_steps}"
    program = shlex.join(command_of("main.py"))
    return f"{program} --op_mode=train_w_load --load_model_url={shlex.quote(str(run.folder))}{more}"
