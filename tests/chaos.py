"""Interrupts and kills a training run at random moments, resumes it, and checks after each round that nothing is lost.

Run by hand: `python -m tests.chaos --rounds 100`. Each round starts a run or resumes the newest one, waits a random
time and takes one of the actions below. The first broken guarantee ends the program with exit code 1 and all details.
"""

import argparse
import random
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from machine.stop_signals import SAME_SIGNAL_SECONDS
from run_files.checkpoint import find_checkpoint, read_checkpoint
from run_files.replay_file import read_tensor_file
from run_files.run_folder import CHECKPOINTS
from tests.chaos_run import BrokenGuaranteeError, Run
from tests.processes import files_in_dev_shm
from tests.read_metrics import read_metrics

GONE_SECONDS = 5.0  # from a signal to the end of all processes, without the time to save the replays
HURRIED_SECONDS = 1.0  # the same after a second signal, if only the replays were left to save
TEMPORARY = ".*.tmp"
LONGEST_DELAY = 9.0  # start-up takes about half of it
REPLAYS = (
    '[{"type": "queue", "capacity": 1, "sample_ratio": 0.5}, '
    '{"type": "standard", "capacity": 200, "sample_ratio": 0.5}]'
)
FIRST_FLAGS = (
    *("--op_mode=train", "--seed=1", "--environment_max_steps=100000000", f"--replay_parameters={REPLAYS}"),
    *("--envs_per_worker=2", "--batch_size=4", "--r_f_steps=5", "--save_model_period=20"),
    *("--report_period=200", "--console=plain", "--console_period=0.5"),
)
STOPPED_AT_START = "stopped while it started; nothing was saved"
GO_ON = "resume with: "
REPLAYS_BEGUN = "saving the replays"


@dataclass(frozen=True)
class Ending:
    """How a run must end after an action."""

    exit_code: int
    seconds: float = GONE_SECONDS


# --- Actions --------------------------------------------------------------------------------------------


def interrupt(run: Run, rng: random.Random) -> Ending:
    run.signal_all(signal.SIGINT)
    return Ending(0)


def interrupt_learner_only(run: Run, rng: random.Random) -> Ending:
    run.process.send_signal(signal.SIGINT)
    return Ending(0)


def terminate(run: Run, rng: random.Random) -> Ending:
    run.signal_all(signal.SIGTERM)
    return Ending(0)


def interrupt_twice(run: Run, rng: random.Random) -> Ending:
    run.signal_all(signal.SIGINT)
    pause = rng.choice([0.0, rng.uniform(0, 0.2), rng.uniform(0, 2)])
    time.sleep(pause)
    only_replays_left = REPLAYS_BEGUN in run.output and pause > SAME_SIGNAL_SECONDS
    if run.members():
        run.signal_all(signal.SIGINT)
    return Ending(0, HURRIED_SECONDS if only_replays_left else GONE_SECONDS)


def interrupt_at_the_last_line(run: Run, rng: random.Random) -> Ending:
    run.signal_all(signal.SIGINT)
    run.wait_for(GO_ON, GONE_SECONDS)
    time.sleep(rng.uniform(0, 0.3))
    if run.members():
        run.signal_all(signal.SIGINT)
    return Ending(0)


def kill_learner(run: Run, rng: random.Random) -> Ending:
    run.process.kill()
    return Ending(-signal.SIGKILL)


def kill_worker_then_interrupt(run: Run, rng: random.Random) -> Ending:
    signal_a_worker(run, rng, signal.SIGKILL)
    time.sleep(rng.uniform(0, 3))
    return interrupt(run, rng)


def stop_worker_then_interrupt(run: Run, rng: random.Random) -> Ending:
    signal_a_worker(run, rng, signal.SIGSTOP)
    time.sleep(rng.uniform(0, 0.5))
    return interrupt(run, rng)


def save_now_then_kill(run: Run, rng: random.Random) -> Ending:
    run.signal_all(signal.SIGUSR1)
    time.sleep(rng.uniform(0, 1))
    return kill_learner(run, rng)


def signal_a_worker(run: Run, rng: random.Random, number: signal.Signals) -> None:
    workers = run.workers()
    if workers:
        rng.choice(workers).send_signal(number)


ACTIONS: tuple[Callable[[Run, random.Random], Ending], ...] = (
    interrupt,
    interrupt_learner_only,
    terminate,
    interrupt_twice,
    interrupt_at_the_last_line,
    kill_learner,
    kill_worker_then_interrupt,
    stop_worker_then_interrupt,
    save_now_then_kill,
)


# --- The lineage and its rounds ---------------------------------------------------------------------------------------


@dataclass
class Lineage:
    """Runs that resume each other, and the progress of the newest."""

    results: Path
    logs: Path
    slack: float  # factor on the allowed times, for busy machines
    longest_delay: float
    workers: int
    rng: random.Random
    newest: Path | None = None  # the run folder with the newest checkpoint
    steps: int = 0
    updates: int = 0
    resume_command: list[str] = field(default_factory=list)  # from the last line of the run, if there was one

    def folders(self) -> set[Path]:
        return set(self.results.iterdir())

    def command(self) -> list[str]:
        """Start a run, or resume the newest one, with the command that it printed if there is one."""
        flags = [f"--results_dir={self.results}", self.rng.choice(["--save_replay", "--nosave_replay"])]
        flags.append(self.rng.choice(["--reproducible", "--noreproducible"]))
        if self.newest is None:
            return [sys.executable, "main.py", *FIRST_FLAGS, f"--worker_count={self.workers}", *flags]
        words = self.resume_command or [
            "python",
            "main.py",
            "--op_mode=train_w_load",
            f"--load_model_url={self.newest}",
        ]
        return [sys.executable, *words[1:], *flags]

    def play(self, number: int, action: Callable[[Run, random.Random], Ending]) -> str:
        """Play one round; return a line that describes it."""
        folders_before = self.folders()
        command = self.command()
        run = Run(command, self.logs / f"round_{number:04d}.txt")
        try:
            run.wait_until_signals_are_handled()
            delay = self.rng.uniform(0.1, self.longest_delay)
            time.sleep(delay)
            if run.process.poll() is not None:
                raise BrokenGuaranteeError(f"it ended before the action, with code {run.process.returncode}")
            require(not files_in_dev_shm(psutil.Process(run.process.pid)), "it has files in /dev/shm")
            ending = action(run, self.rng)
            took = run.wait_until_gone(self.slack * ending.seconds + 60 * (REPLAYS_BEGUN in run.output))
            seconds = self.slack * ending.seconds + time_for_replays(run.output)
            require(took <= seconds, f"its processes were gone after {took:.2f} s, not within {seconds:g} s")
            new = self.folders() - folders_before
            self.check_ending(run, ending, new)
            for folder in new:
                self.check_folder(folder, run.output)
        except BrokenGuaranteeError as broken:
            raise BrokenGuaranteeError(
                f"round {number}, {action.__name__}: {broken}\n$ {shlex.join(command)}\n{run.output}"
            ) from None
        finally:
            run.end()
        made = ", ".join(folder.name for folder in new) or "nothing made"
        return (
            f"{number:4d}  {action.__name__:27s} after {delay:4.1f} s, gone in {took:4.2f} s;  "
            f"{self.steps:7,d} steps, {self.updates:6,d} updates;  {made}"
        )

    def check_ending(self, run: Run, ending: Ending, new: set[Path]) -> None:
        output, code = run.output, run.process.returncode
        if ending.exit_code == 0 and STOPPED_AT_START in output:
            require(code in (130, 143), f"exit code {code} of a run that was stopped while it started")
            require(not new and "Traceback" not in output, "a run that was stopped while it started left something")
            self.resume_command = []
            return
        require(code == ending.exit_code, f"exit code {code}, not {ending.exit_code}")
        require("Traceback" not in output, "a traceback in the output")
        require(len(new) <= 1, f"more than one new folder: {new}")
        self.resume_command = []
        if code != 0:
            return
        if not new:
            require(not output, "there is output, but no run folder")
            return
        last = output.splitlines()[-1] if output else ""
        require(last.startswith(GO_ON), f"the last line is {last!r}, not the command that goes on")
        self.resume_command = shlex.split(last.removeprefix(GO_ON))
        require(str(next(iter(new))) in last, "the last line names another folder")

    def check_folder(self, folder: Path, output: str) -> None:
        """Check all files in a new run folder against the progress of the runs before."""
        for path in sorted(folder.glob(f"{CHECKPOINTS}/*.pt")):
            checkpoint = read_checkpoint(path)
            far_enough = path.name == "best.pt" or (
                checkpoint.agent_steps >= self.steps and checkpoint.updates >= self.updates
            )
            require(far_enough, f"{path} is at {checkpoint.agent_steps} steps, but the run before was at {self.steps}")
        for path in sorted(folder.glob(f"{CHECKPOINTS}/replays_*.bin")):
            read_tensor_file(path)
        metrics = folder / "metrics.jsonl"
        steps = [int(str(report["agent_steps"])) for report in read_metrics(metrics)] if metrics.exists() else []
        require(steps == sorted(set(steps)), f"the steps in {metrics} do not rise: {steps}")
        require(all(step >= self.steps for step in steps), f"{metrics} begins before step {self.steps}")
        if self.newest is not None and "results in" in output:
            require(f"at {self.steps:,} agent steps" in output, f"it did not go on from step {self.steps}")
            left = list(self.newest.glob(f"**/{TEMPORARY}"))
            require(not left, f"temporary files are left: {left}")
        if list(folder.glob(f"{CHECKPOINTS}/*.pt")):
            newest = find_checkpoint(str(folder))
            require(newest.agent_steps >= self.steps, f"going on with {folder} would go back to {newest.agent_steps}")
            self.newest, self.steps, self.updates = folder, newest.agent_steps, newest.updates


def require(condition: bool, failure: str) -> None:
    if not condition:
        raise BrokenGuaranteeError(failure)


def time_for_replays(output: str) -> float:
    """The seconds that the last saving of the replays took, as the run printed them."""
    lines = [line for line in output.splitlines() if "replays saved" in line]
    return float(lines[-1].split(" in ")[-1].removesuffix(" s")) if lines else 0.0


def play_rounds(
    rounds: int, seed: int, results: Path, slack: float = 1.0, longest_delay: float = LONGEST_DELAY, workers: int = 2
) -> Iterator[str]:
    """Play so many rounds, with each action equally often; yield a line about each, and then a summary."""
    rng = random.Random(seed)
    (results / "runs").mkdir(parents=True, exist_ok=True)
    (results / "logs").mkdir(exist_ok=True)
    lineage = Lineage(results / "runs", results / "logs", slack, longest_delay, workers, rng)
    actions: list[Callable[[Run, random.Random], Ending]] = []
    for number in range(1, rounds + 1):
        actions = actions or rng.sample(ACTIONS, len(ACTIONS))
        yield lineage.play(number, actions.pop())
    yield f"{rounds} rounds, no guarantee broken; the lineage came to {lineage.steps:,} agent steps"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--results_dir", type=Path, default=None, help="unset makes a temporary folder that stays")
    parser.add_argument("--slack", type=float, default=1.0, help="factor on the seconds that a run may take to end")
    options = parser.parse_args()
    results = options.results_dir or Path(tempfile.mkdtemp(prefix="chaos_"))
    print(f"seed {options.seed}, runs and their output in {results}", flush=True)
    try:
        for line in play_rounds(options.rounds, options.seed, results, options.slack):
            print(line, flush=True)
    except BrokenGuaranteeError as broken:
        print(f"BROKEN GUARANTEE in {broken}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
