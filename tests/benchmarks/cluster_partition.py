"""What it costs a run that nothing comes through between its learner and a node for a while.

`python -m tests.benchmarks.cluster_partition --seconds=60`, as root on Linux. Head and node are in network namespaces
of their own, and the wire between them is stopped and goes on. All workers are on the node, so that the run needs it.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.benchmarks.cluster_distance import HEAD, PORT, START_SECONDS, end, ray_nodes, two_namespaces
from tests.read_metrics import read_metrics

THRESHOLD = "RAY_health_check_failure_threshold"  # set as docs/cluster.md says
MOST_SECONDS = 300.0  # until the node plays again


class Follower:
    """Reads the newest report of the run."""

    def __init__(self, results: Path) -> None:
        self._results = results

    def newest(self) -> dict[str, Any]:
        for path in self._results.glob("*/metrics.jsonl"):
            reports = read_metrics(path)
            if reports:
                return dict(reports[-1])
        return {"agent_steps": 0, "updates": 0, "nodes": []}

    def wait_for(self, steps: int, seconds: float) -> float:
        """Wait for so many more steps than now; return how long it took."""
        begun, wanted = time.monotonic(), self.newest()["agent_steps"] + steps
        while self.newest()["agent_steps"] < wanted:
            if time.monotonic() - begun > seconds:
                raise RuntimeError(f"no {steps} steps within {seconds:g} seconds")
            time.sleep(0.2)
        return time.monotonic() - begun

    def speed(self, seconds: float) -> float:
        before = self.newest()
        time.sleep(seconds)
        after = self.newest()
        return float((after["agent_steps"] - before["agent_steps"]) / seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for which nothing comes through")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--measured_seconds", type=float, default=30.0, help="of the speed before and after")
    arguments, flags = parser.parse_known_args()
    os.environ.setdefault(THRESHOLD, "30")
    folder = Path(tempfile.mkdtemp(prefix="rl", dir="/tmp"))
    results = folder / "results"
    words = [f"--cluster={HEAD}:{PORT}", "--nolocal_workers", "--learner_threads=1", f"--results_dir={results}"]
    words += ["--console=plain", "--nocurves", "--report_period=200", "--seed=1", *flags]
    try:
        with two_namespaces(1.0, 0.0) as names, ray_nodes(names, folder, arguments.workers):
            assert names.wire is not None
            process = names.run(names.head, sys.executable, "main.py", *words)
            try:
                run = Follower(results)
                run.wait_for(5000, START_SECONDS)
                before = run.speed(arguments.measured_seconds)
                names.wire.send_signal(signal.SIGSTOP)
                time.sleep(arguments.seconds)
                last = run.newest()
                names.wire.send_signal(signal.SIGCONT)
                pause = run.wait_for(1000, MOST_SECONDS)
                after = run.speed(arguments.measured_seconds)
                report = run.newest()
            finally:
                with suppress(ProcessLookupError):
                    names.wire.send_signal(signal.SIGCONT)
                end(process, signal.SIGINT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    accepted = sum(int(node["agent_steps"]) for node in report["nodes"])
    print(
        f"{arguments.seconds:g} s without a wire: {before:,.0f} steps/s before, 1,000 more steps {pause:.1f} s after "
        f"it was back, {after:,.0f} steps/s then"
    )
    for node in report["nodes"]:
        print(f"node {node['node']}: {node['restarts']} restarts, {node['unrolls_refused']} unrolls refused")
    print(
        f"{last['agent_steps']:,} steps when it was back; {report['agent_steps']:,} at the end, {accepted:,} accepted"
    )
    if accepted != report["agent_steps"]:
        sys.exit("the counters do not agree")


if __name__ == "__main__":
    main()
