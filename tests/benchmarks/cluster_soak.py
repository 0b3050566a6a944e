"""Memory of each process of a long run on a cluster, with a fit of its growth.

`python -m tests.benchmarks.cluster_soak --minutes=60`. Learner, gateway and two nodes of one worker each, all on this
machine, train Pong, or what other flags say. Each minute the memory of all processes is read; the first tenth does not
count, while buffers fill. `--keep=<folder>` keeps the run's own folder there.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from statistics import linear_regression

import psutil

from tests.cluster.cluster_run import ClusterRun, has_loaded_ray
from tests.cluster.some_nodes import SomeNodes
from tests.processes import mebibytes

FLAGS = ("--nolocal_workers", "--environment_max_steps=1000000000", "--console=plain")
MOST_GROWTH = 0.02  # of a process's memory in an hour


def roles(run: ClusterRun, nodes: SomeNodes, begun: float) -> dict[str, list[psutil.Process]]:
    """The processes of the run by what they are, without those that the learner starts to draw its curves."""
    found: dict[str, list[psutil.Process]] = defaultdict(list)
    found["learner"].append(psutil.Process(run.process.pid))
    for child in run.children():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if child.create_time() <= begun:
                found["gateway" if has_loaded_ray(child) else "other child"].append(child)
    players = nodes.players()
    for player in players:
        with suppress(psutil.NoSuchProcess):
            found["actor" if "NodeActor" in " ".join(player.cmdline()) else "worker"].append(player)
    found["Ray"] = [process for process in nodes.processes() if process not in players]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--sample_seconds", type=float, default=60.0)
    parser.add_argument("--keep", type=Path, help="a folder for the run")
    arguments, flags = parser.parse_known_args()
    nodes = SomeNodes()
    series: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        nodes.add()
        nodes.add()
        run = ClusterRun(nodes, arguments.keep or Path(folder) / "results", *FLAGS, *flags, program=("main.py",))
        try:
            run.wait_for("plays with", 120)
            run.wait_for_steps(1, 120)
            begun, begun_at = time.monotonic(), time.time()
            while (elapsed := time.monotonic() - begun) < 60 * arguments.minutes:
                for role, processes in roles(run, nodes, begun_at).items():
                    series[role].append((elapsed / 3600, mebibytes(processes, "uss")))
                time.sleep(arguments.sample_seconds)
            steps = run.steps()
            run.stop()
        finally:
            run.close()
            nodes.close()
    grows = False
    print(f"{arguments.minutes:g} minutes, {steps:,} steps")
    for role, values in series.items():
        counted = [(hour, size) for hour, size in values if hour >= arguments.minutes / 600]
        if len(counted) < 2:
            continue
        slope = linear_regression(*zip(*counted, strict=True)).slope
        last = counted[-1][1]
        grows |= slope > MOST_GROWTH * last
        print(f"{role:12s} {counted[0][1]:8.1f} MiB at first, {last:8.1f} at last, {slope:+7.2f} MiB an hour")
    return 1 if grows else 0


if __name__ == "__main__":
    sys.exit(main())
