"""What Ray itself costs on a node that has nothing to do: memory and CPU of all of its processes.

`python -m tests.benchmarks.cluster_idle --seconds=60`. A head and a node, each started by `ray start` as in
docs/cluster.md, without a run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from tests.processes import mebibytes

RAY = str(Path(sys.executable).parent / "ray")
PORT = 6399
SETTLE_SECONDS = 20.0  # until the processes of a new node are all there, and idle


def tree(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    root = psutil.Process(process.pid)
    return [root, *root.children(recursive=True)]


def cpu_seconds(processes: list[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rl", dir="/tmp"))
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    start = [RAY, "start", "--block"]
    commands = {
        "head": [*start, "--head", f"--port={PORT}", "--num-cpus=0", f"--temp-dir={folder}"],
        "node": [*start, f"--address=127.0.0.1:{PORT}", "--num-cpus=2"],
    }
    started = {}
    try:
        for name, command in commands.items():
            started[name] = subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(SETTLE_SECONDS)
        trees = {name: tree(process) for name, process in started.items()}
        before = {name: cpu_seconds(processes) for name, processes in trees.items()}
        time.sleep(arguments.seconds)
        for name, processes in trees.items():
            share = (cpu_seconds(processes) - before[name]) / arguments.seconds
            print(f"{name}: {len(processes)} processes, {mebibytes(processes, 'pss'):,.0f} MiB, {share:.1%} of a core")
    finally:
        for process in reversed(started.values()):
            left = tree(process) if process.poll() is None else []
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            for each in psutil.wait_procs(left, timeout=5)[1]:
                each.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
