"""Training with workers on other nodes of a real Ray cluster."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from run_files.checkpoint import find_checkpoint
from tests.cluster.cluster_run import has_loaded_ray
from tests.cluster.conftest import StartRun
from tests.cluster.some_nodes import ROOT, SomeNodes, wait_until_gone
from tests.training.catch_runs import reports

pytestmark = pytest.mark.slow

ENDLESS = "--environment_max_steps=100000000"
REMOTE = "--nolocal_workers"


def steps_of_nodes(folder: Path) -> int:
    nodes: list[dict[str, Any]] = reports(folder)[-1].get("nodes", [])
    return sum(int(node["agent_steps"]) for node in nodes)


def test_a_run_on_this_machine_and_a_node_is_stopped_and_its_resumed_run_may_be_killed(
    start_run: StartRun, nodes: SomeNodes
) -> None:
    run = start_run(ENDLESS, "--worker_count=1", "--save_model_period=1000000", "--save_model_minutes=1000")
    run.wait_for("plays with")
    run.wait_for_steps(400)
    while not steps_of_nodes(run.folder):  # its worker may need some seconds to start
        run.wait_for_steps(400)
    run.stop()
    remote = steps_of_nodes(run.folder)
    assert 0 < remote < int(reports(run.folder)[-1]["agent_steps"])

    reached = find_checkpoint(str(run.folder)).agent_steps
    more = [REMOTE, ENDLESS, "--weights_precision=bfloat16"]
    resumed = start_run("--op_mode=train_w_load", f"--load_model_url={run.folder}", *more)
    resumed.wait_for("plays with 1 worker")
    resumed.wait_for("results in")
    resumed.wait_for_steps(1)  # a first report, with the steps of the parent
    resumed.wait_for_steps(2000)
    while not reports(resumed.folder)[-1]["nodes"][0]["received_bytes_per_second"]:  # the gateway tells it now and then
        resumed.wait_for_steps(400)
    left = [*resumed.children(), *nodes.players()]
    assert len(left) >= 3, "the gateway, an actor and its worker"
    resumed.process.kill()
    assert not wait_until_gone(left)
    last = reports(resumed.folder)[-1]
    (node,) = last["nodes"]
    assert last["agent_steps"] == reached + node["agent_steps"]
    assert node["alive"] and node["workers"] == 1 and not node["unrolls_refused"]
    assert node["unrolls_accepted"] * 10 == node["agent_steps"] >= 2000
    assert node["received_bytes_per_second"] > 0 and node["sent_bytes_per_second"] > 0


@pytest.mark.by_hand
def test_nodes_join_hang_and_are_killed(start_run: StartRun, nodes: SomeNodes) -> None:
    run = start_run(REMOTE, ENDLESS)
    place = run.wait_for("plays with 1 worker")
    index = nodes.add(cpus=2)
    place = run.wait_for("plays with 2 workers", after=place)
    run.wait_for_steps(800)
    actors = [each for each in nodes.players() if "NodeActor" in " ".join(each.cmdline())]
    actors[0].send_signal(signal.SIGSTOP)  # as when its machine hangs: nothing else waits for it
    run.wait_for_steps(2000)
    actors[0].send_signal(signal.SIGCONT)
    run.wait_for_steps(800)
    nodes.kill(index)
    run.wait_for("left the cluster", after=place)
    run.wait_for_steps(2000)
    run.stop()
    last = reports(run.folder)[-1]
    assert [node["alive"] for node in last["nodes"]] == [True, False]
    assert last["agent_steps"] == steps_of_nodes(run.folder)


@pytest.mark.by_hand
def test_killed_actors_workers_and_gateways_are_replaced(start_run: StartRun, nodes: SomeNodes) -> None:
    run = start_run(REMOTE, ENDLESS)
    place = run.wait_for("plays with")
    run.wait_for_steps(400)
    assert not has_loaded_ray(psutil.Process(run.process.pid)), "only the gateway does"
    actor, worker = nodes.players()
    worker.kill()
    place = run.wait_for("worker 0 is replaced: it was killed by SIGKILL", after=place)
    run.wait_for_steps(400)
    actor.kill()
    place = run.wait_for("is started again", after=place)
    place = run.wait_for("plays with", after=place)
    run.wait_for_steps(400)
    run.gateway().kill()
    place = run.wait_for("the gateway to the cluster is replaced: it was killed by SIGKILL", after=place)
    run.wait_for("plays with", after=place)
    run.wait_for_steps(400)
    run.stop()
    last = reports(run.folder)[-1]
    assert last["agent_steps"] == steps_of_nodes(run.folder)
    assert sum(node["restarts"] for node in last["nodes"]) >= 2


@pytest.mark.by_hand
def test_a_node_with_other_code_does_not_play(start_run: StartRun, nodes: SomeNodes, tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    for path in [ROOT / "main.py", ROOT / "option_flags.py", *ROOT.glob("*/*.py")]:
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    (copy / "workers" / "worker.py").write_text("changed = True\n")
    index = nodes.add(cpus=2, RL_PLATFORM_CHECKOUT=str(copy))
    try:
        run = start_run(REMOTE, ENDLESS)
        run.wait_for(f"is left out: the code in its {copy} is another version")
        run.wait_for("plays with 1 worker")
        run.wait_for_steps(400)
        run.stop()
    finally:
        nodes.kill(index)


def test_a_wrong_address_is_one_sentence(nodes: SomeNodes, tmp_path: Path) -> None:
    said = train_in_vain(nodes, tmp_path, "127.0.0.1:1")
    assert said.startswith("--cluster=127.0.0.1:1 does not answer") and said.count("\n") == 1


@pytest.mark.by_hand
def test_a_wrong_token_is_one_sentence(tmp_path: Path) -> None:
    """A cluster of its own, whose nodes share a token."""
    token = "RAY_AUTH_TOKEN"
    guarded = SomeNodes(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="a" * 32)
    try:
        guarded.environment[token] = "b" * 32
        wrong = train_in_vain(guarded, tmp_path)
        del guarded.environment[token]
        guarded.environment["RAY_AUTH_TOKEN_PATH"] = str(tmp_path / "none")
        missing = train_in_vain(guarded, tmp_path)
    finally:
        guarded.close()
    for said in (wrong, missing):
        assert "the authentication token is missing, or its head refuses it" in said and said.count("\n") == 1


def train_in_vain(nodes: SomeNodes, results: Path, address: str = "") -> str:
    """What a run says that must not start."""
    flags = (f"--cluster={address or nodes.address}", f"--results_dir={results}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.catch_main", *flags],
        cwd=ROOT,
        env=nodes.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and not done.stdout and not list(results.iterdir())
    return done.stderr
