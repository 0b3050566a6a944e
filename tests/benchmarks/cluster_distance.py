"""Compare a worker on another node, at a distance, with a worker of the learner's machine, on the same cores.

`python -m tests.benchmarks.cluster_distance --round_trip_ms=50 --mbit=100`, as root on Linux. The head and the node are
in network namespaces of their own, and a process delays what goes between them; the machine's own network stays as it
is. Local and remote runs take turns.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from tests.benchmarks.runs import ROOT
from tests.benchmarks.slow_wire import DEVICE
from tests.read_metrics import read_metrics

HEAD, NODE = "10.77.0.1", "10.77.0.2"
PORT = 6379
OBJECT_STORE = 200 << 20
START_SECONDS = 180.0
BURN_IN_SECONDS = 25.0  # after the first update, in which backpressure finds its limit


@dataclass
class Namespaces:
    """Two network namespaces, joined by a slow wire."""

    head: str
    node: str
    wire: "subprocess.Popen[bytes] | None" = None

    def run(self, namespace: str, *command: str, **options: Any) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            ["ip", "netns", "exec", namespace, *command], cwd=ROOT, start_new_session=True, **options
        )


@contextmanager
def two_namespaces(round_trip_ms: float, mbit: float) -> Iterator[Namespaces]:
    names = Namespaces(f"rlhead{os.getpid()}", f"rlnode{os.getpid()}")
    wire = None
    try:
        for name in (names.head, names.node):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        command = [sys.executable, "-m", "tests.benchmarks.slow_wire", names.head, names.node]
        names.wire = wire = subprocess.Popen(
            [*command, str(round_trip_ms / 2), str(mbit)], cwd=ROOT, stdout=subprocess.PIPE
        )
        assert wire.stdout is not None
        if wire.stdout.readline() != b"open\n":
            raise RuntimeError("the wire between the namespaces could not be opened")
        for name, address in ((names.head, HEAD), (names.node, NODE)):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", DEVICE)
            # Large packets, as a network card takes them from the kernel: cutting them costs no core of the machine.
            ip("-n", name, "link", "set", DEVICE, "mtu", "65000", "up")
        yield names
    finally:
        if wire is not None:
            wire.kill()
            wire.wait()
        for name in (names.head, names.node):
            subprocess.run(["ip", "netns", "del", name], check=False)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def ray_nodes(names: Namespaces, folder: Path, workers: int) -> Iterator[None]:
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    ray = [str(Path(sys.executable).parent / "ray"), "start", "--block", f"--object-store-memory={OBJECT_STORE}"]
    head = [*ray, "--head", f"--port={PORT}", f"--node-ip-address={HEAD}", "--num-cpus=0", f"--temp-dir={folder}"]
    node = [*ray, f"--address={HEAD}:{PORT}", f"--node-ip-address={NODE}", f"--num-cpus={workers}"]
    processes = []
    try:
        for name, command in ((names.head, [*head, "--include-dashboard=false"]), (names.node, node)):
            processes.append(names.run(name, *command, env=environment, stdout=subprocess.DEVNULL))
            wait_until_joined(names, name)
        yield
    finally:
        for process in reversed(processes):
            end(process, signal.SIGTERM)


def wait_until_joined(names: Namespaces, namespace: str) -> None:
    """Wait until the machine behind the namespace is a node of the cluster."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        probe = names.run(namespace, sys.executable, "-m", "cluster.nodes", f"{HEAD}:{PORT}", stdout=subprocess.PIPE)
        said = probe.communicate()[0].decode()
        if "cluster: \n" in said:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"no node of Ray has started: {said}")
        time.sleep(1)


def end(process: "subprocess.Popen[bytes]", first: signal.Signals) -> None:
    """End a process group: with a signal, and after some seconds by force."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, first)
    with suppress(subprocess.TimeoutExpired):
        process.wait(30)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def measure(names: Namespaces, remote: bool, workers: int, seconds: float, flags: list[str]) -> tuple[float, float]:
    """Agent steps a second and mean policy lag of a run of Pong, after its first updates."""
    where = [f"--cluster={HEAD}:{PORT}", "--nolocal_workers", "--learner_threads=1"] if remote else []
    with tempfile.TemporaryDirectory() as results:
        words = [f"--results_dir={results}", "--console=off", "--nocurves", "--report_period=1000", "--seed=1"]
        words += [f"--worker_count={workers}", "--learner_threads=1"] if not remote else where
        process = names.run(names.head, sys.executable, "main.py", *words, *flags)
        try:
            deadline = time.monotonic() + START_SECONDS
            while True:
                time.sleep(0.5)
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the run did not come to its first updates")
                reports = [report for path in Path(results).glob("*/metrics.jsonl") for report in read_metrics(path)]
                learning: list[dict[str, Any]] = [dict(report) for report in reports if report["updates"]]
                begun = learning[0]["seconds"] + BURN_IN_SECONDS if learning else 0.0
                warm = [report for report in learning if report["seconds"] >= begun]
                if warm and warm[-1]["seconds"] - warm[0]["seconds"] >= seconds:
                    break
        finally:
            end(process, signal.SIGINT)
    first, last = warm[0], warm[-1]
    speed = (last["agent_steps"] - first["agent_steps"]) / (last["seconds"] - first["seconds"])
    return speed, mean(report["policy_lag_mean"] for report in warm[1:] if report["policy_lag_mean"] is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--round_trip_ms", type=float, default=1.0)
    parser.add_argument("--mbit", type=float, default=0.0, help="bandwidth; 0: not limited")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--repeats", type=int, default=3)
    arguments, flags = parser.parse_known_args()
    folder = Path(tempfile.mkdtemp(prefix="rl", dir="/tmp"))
    try:
        with (
            two_namespaces(arguments.round_trip_ms, arguments.mbit) as names,
            ray_nodes(names, folder, arguments.workers),
        ):
            for _ in range(arguments.repeats):
                local, local_lag = measure(names, False, arguments.workers, arguments.seconds, flags)
                remote, remote_lag = measure(names, True, arguments.workers, arguments.seconds, flags)
                print(
                    f"{arguments.round_trip_ms:g} ms: local {local:,.0f} steps/s, lag {local_lag:.1f}; remote "
                    f"{remote:,.0f} steps/s, lag {remote_lag:.1f}; ratio {remote / local:.2f}",
                    flush=True,
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
