"""Kill random processes of a run with several learners, and check that it goes on each time.

    python -m tests.benchmarks.learner_chaos --rounds=50

In each round, one process of the run (a learner or a worker) is killed at a random moment; then the run must make
updates again. At the end, the launcher is stopped: no process may be left.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
FLAGS = (
    *("--env=CartPole-v1", "--learners=2", "--worker_count=2", "--envs_per_worker=8", "--batch_size=16", "--nocurves"),
    *("--console=off", "--report_period=3200", "--save_model_period=20", "--environment_max_steps=2000000000"),
)
PATIENCE = 120.0  # seconds until a run that does not go on counts as one that hangs


def reports(results: Path) -> int:
    """Lines of metrics.jsonl of all runs so far."""
    files = results.glob("*/metrics.jsonl")
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def wait_for_reports(results: Path, launcher: subprocess.Popen[bytes], more_than: int) -> float:
    """Wait until there are more reports; return the seconds."""
    begun = time.monotonic()
    while reports(results) <= more_than:
        if launcher.poll() is not None:
            raise SystemExit(f"the run ended with exit code {launcher.returncode}")
        if time.monotonic() - begun > PATIENCE:
            raise SystemExit(f"no report for {PATIENCE:g} seconds: the run hangs")
        time.sleep(0.1)
    return time.monotonic() - begun


def living(launcher: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The learners and workers that run."""
    found = []
    for process in psutil.Process(launcher.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended; also raised for a zombie
            words = " ".join(process.cmdline())
            if "main.py" in words or "processes.inside" in words:
                found.append(process)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the choice of processes and moments")
    given = parser.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        restarts = f"--learner_restarts={given.rounds + 1}"
        command = [sys.executable, "main.py", *FLAGS, f"--results_dir={results}", restarts]
        launcher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        seen: list[psutil.Process] = []
        try:
            wait_for_reports(results, launcher, 0)
            for number in range(1, given.rounds + 1):
                time.sleep(chance.uniform(0, 3))
                running = living(launcher)
                seen += running
                chosen = chance.choice(running)
                kind = "learner" if "main.py" in " ".join(chosen.cmdline()) else "worker"
                chosen.kill()
                time.sleep(0.5)  # reports that were on their way do not count
                seconds = wait_for_reports(results, launcher, reports(results) + 1)
                print(f"round {number}: a {kind} was killed, the run goes on after {seconds:.1f} s", flush=True)
            seen += living(launcher)
            launcher.send_signal(signal.SIGINT)
            code = launcher.wait(timeout=PATIENCE)
            _, left = psutil.wait_procs(seen, timeout=20)
            print(f"exit code {code}, {len(left)} processes left")
        finally:
            launcher.kill()
            launcher.wait()


if __name__ == "__main__":
    main()
