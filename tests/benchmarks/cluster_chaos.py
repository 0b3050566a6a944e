"""Kills, stops and restarts parts of a cluster at random moments of a run, and checks that nothing hangs or leaks.

`python -m tests.benchmarks.cluster_chaos --rounds=50`. All workers are on two Ray nodes of this machine. After each
round, the run must go on, its counters must be exact, and no process may be left. The first broken guarantee ends the
program with exit code 1.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from run_files.checkpoint import find_checkpoint
from tests.chaos_run import BrokenGuaranteeError
from tests.cluster.cluster_run import ClusterRun
from tests.cluster.some_nodes import SomeNodes, wait_until_gone
from tests.read_metrics import read_metrics

FLAGS = ("--nolocal_workers", "--environment_max_steps=1000000000", "--report_period=200", "--save_model_period=50")
RECOVERY_SECONDS = 120.0  # a node that was lost is given up by Ray, and another one starts
MORE_STEPS = 1000  # that a run has to make after each action


@dataclass
class Chaos:
    """A cluster, a run on it, and the runs before it."""

    nodes: SomeNodes
    results: Path
    rng: random.Random
    alive: list[int] = field(default_factory=list)  # indices of the nodes
    steps_before: int = 0  # of the run's parent

    def start(self) -> None:
        flags = list(FLAGS)
        folders = (
            sorted(self.results.iterdir(), key=lambda folder: folder.stat().st_ctime) if self.results.exists() else []
        )
        saved = [folder for folder in folders if list(folder.glob("checkpoints/*.pt"))]
        if saved:
            flags += ["--op_mode=train_w_load", f"--load_model_url={saved[-1]}"]
            self.steps_before = find_checkpoint(str(saved[-1])).agent_steps
        self.run = ClusterRun(self.nodes, self.results, *flags)
        self.run.wait_for("plays with", RECOVERY_SECONDS)
        self.run.wait_for_steps(1, RECOVERY_SECONDS)

    def check(self) -> None:
        """The run goes on, and has received exactly what was accepted from its nodes."""
        self.run.wait_for_steps(MORE_STEPS, RECOVERY_SECONDS)
        report = read_metrics(self.run.folder / "metrics.jsonl")[-1]
        nodes = report["nodes"]
        assert isinstance(nodes, list)
        played = sum(int(node["agent_steps"]) for node in nodes)
        require(
            report["agent_steps"] == self.steps_before + played,
            f"{report['agent_steps']} steps, but {self.steps_before} + {played} were accepted",
        )
        require("Traceback" not in self.run.output, "there is a traceback")
        # A player and one worker on each node; a lost one may still be on its way out.
        deadline = time.monotonic() + RECOVERY_SECONDS
        while len(self.nodes.players()) > 2 * len(self.alive):
            require(time.monotonic() < deadline, f"too many processes on the nodes: {self.nodes.players()}")
            time.sleep(0.5)

    def actors(self) -> list[psutil.Process]:
        return [process for process in self.nodes.players() if "NodeActor" in " ".join(process.cmdline())]


def require(condition: bool, failure: str) -> None:
    if not condition:
        raise BrokenGuaranteeError(failure)


def kill_worker(chaos: Chaos) -> None:
    actors = {process.pid for process in chaos.actors()}
    workers = [process for process in chaos.nodes.players() if process.pid not in actors]
    if workers:
        chaos.rng.choice(workers).kill()


def kill_actor(chaos: Chaos) -> None:
    chaos.rng.choice(chaos.actors() or [psutil.Popen(["true"])]).kill()


def stop_actor(chaos: Chaos) -> None:
    """As if its player hung."""
    actors = chaos.actors()
    pause(chaos, chaos.rng.sample(actors, min(1, len(actors))))


def stop_node(chaos: Chaos) -> None:
    """As if its machine hung, or as if nothing came through to it: a raylet, its actor and all workers."""
    raylet = chaos.nodes.raylet(chaos.rng.choice(chaos.alive))
    pause(chaos, [raylet, *raylet.children(recursive=True)])


def pause(chaos: Chaos, processes: list[psutil.Process]) -> None:
    """Stop the processes for up to a minute, for which Ray does not give their node up."""
    for number, seconds in ((signal.SIGSTOP, chaos.rng.uniform(0.5, 60)), (signal.SIGCONT, 0.0)):
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        time.sleep(seconds)


def kill_raylet(chaos: Chaos) -> None:
    """Its node is lost, and another one comes."""
    index = chaos.rng.choice(chaos.alive)
    chaos.nodes.raylet(index).kill()
    replace_node(chaos, index)


def kill_node(chaos: Chaos) -> None:
    replace_node(chaos, chaos.rng.choice(chaos.alive))


def replace_node(chaos: Chaos, index: int) -> None:
    chaos.alive.remove(index)
    chaos.nodes.kill(index)
    time.sleep(chaos.rng.uniform(0, 2))
    chaos.alive.append(chaos.nodes.add())


def kill_gateway(chaos: Chaos) -> None:
    chaos.run.gateway().kill()


def kill_learner(chaos: Chaos) -> None:
    """Nothing may be left; the run goes on from its checkpoint."""
    left = [*chaos.run.children(), *chaos.nodes.players()]
    chaos.run.process.kill()
    chaos.run.close()
    require(not wait_until_gone(left, RECOVERY_SECONDS), "something is left of a killed learner")
    chaos.start()


ACTIONS: tuple[Callable[[Chaos], None], ...] = (
    *(kill_worker, kill_actor, stop_actor, stop_node, kill_raylet, kill_node, kill_gateway, kill_learner),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    print(f"seed {arguments.seed}")
    nodes = SomeNodes(RAY_health_check_failure_threshold="30")  # as docs/cluster.md says
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(nodes, Path(folder) / "results", rng)
        try:
            chaos.alive = [nodes.add(), nodes.add()]
            chaos.start()
            actions: list[Callable[[Chaos], None]] = []
            for number in range(1, arguments.rounds + 1):
                actions = actions or rng.sample(ACTIONS, len(ACTIONS))
                action = actions.pop()
                time.sleep(rng.uniform(0, 3))
                begun = time.monotonic()
                action(chaos)
                chaos.check()
                print(f"{number:3d}  {action.__name__:12s} {time.monotonic() - begun:5.1f} s", flush=True)
            chaos.run.stop()
            require(not wait_until_gone(nodes.players()), "something is left on the nodes")
            print(f"{arguments.rounds} rounds, no guarantee broken")
        except (BrokenGuaranteeError, AssertionError) as broken:
            print(f"broken: {broken}\n{chaos.run.output}", file=sys.stderr)
            return 1
        finally:
            if hasattr(chaos, "run"):
                chaos.run.close()
            nodes.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
