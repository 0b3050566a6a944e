"""How long it takes until a new node plays, from the moment that Ray lists it.

`python -m tests.benchmarks.cluster_join --repeats=5`. A run of Pong with one local worker goes on; again and again, a
Ray node of one core joins the cluster on this machine, and is killed when its first unrolls are accepted.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.cluster_run import ClusterRun
from tests.cluster.some_nodes import SomeNodes
from tests.read_metrics import read_metrics

FLAGS = ("--worker_count=1", "--environment_max_steps=1000000000", "--console=plain", "--report_period=200")
START_SECONDS = 120.0


def accepted(run: ClusterRun) -> int:
    """Unrolls that the learner has taken from all nodes that are there now."""
    nodes = read_metrics(run.folder / "metrics.jsonl")[-1].get("nodes", [])
    assert isinstance(nodes, list)
    return sum(int(node["unrolls_accepted"]) for node in nodes if node["alive"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    arguments, flags = parser.parse_known_args()
    nodes = SomeNodes()
    with tempfile.TemporaryDirectory() as folder:
        run = ClusterRun(nodes, Path(folder) / "results", *FLAGS, *flags, program=("main.py",))
        try:
            run.wait_for("starting", START_SECONDS)
            run.wait_for_steps(5000, START_SECONDS)
            for _ in range(arguments.repeats):
                printed = len(run.lines)
                node = nodes.add()
                begun = time.monotonic()
                run.wait_for("plays with", START_SECONDS, after=printed)
                ready = time.monotonic() - begun
                while not accepted(run):
                    time.sleep(0.2)
                learned = time.monotonic() - begun
                print(f"it was ready to play after {ready:.1f} s, and its first unrolls came after {learned:.1f} s")
                nodes.kill(node)
                run.wait_for("left the cluster", START_SECONDS, after=printed)
            run.stop()
        finally:
            run.close()
            nodes.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
