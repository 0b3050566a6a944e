"""Sweeps whose runs are played by the nodes of a Ray cluster."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from run_files.checkpoint import find_checkpoint
from tests.sweeps.cluster_sweep import checkpoints, metrics_lines
from tests.sweeps.conftest import StartSweep
from tests.sweeps.fake_main import REPLAYS
from tests.sweeps.fake_sweeps import ROOT, rows, starts
from tests.sweeps.some_nodes import NodesWithFolders, processes_of, wait_until_gone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
RUNS = {"runs": {"a": {"lr": 0.01}, "b": {"lr": 0.02}, "c": {"lr": 0.03}}}
WAITING = {"flags": {"lr": 0.01, "gamma": 0.6, "save_replay": True}}  # waits at half of its steps


def test_the_files_of_runs_come_from_nodes_that_share_no_folder(start_sweep: StartSweep, two: list[Path]) -> None:
    sweep = start_sweep(RUNS)
    assert sweep.end() == 0, sweep.output
    assert {row["status"] for row in rows(sweep.folder).values()} == {"done"}
    for name in ("a_seed1", "b_seed1", "c_seed1"):
        job = sweep.folder / name
        assert metrics_lines(job) == 10
        assert checkpoints(job)[-1] == "Game_1/checkpoints/checkpoint_0000001000.pt"
        assert (job / "log.txt").read_text() == "done 0.0%  steps 0\n"
        assert starts(job) == [["train"]]
        assert rows(sweep.folder)[name]["folder"] == f"{name}/Game_1"
    used = set(re.findall(r"starts on node (\S+), log in", sweep.output))
    assert len(used) == 2, sweep.output
    assert wait_until_gone(two) == []


@pytest.mark.by_hand
def test_an_interrupted_run_goes_on_at_another_node(
    start_sweep: StartSweep, nodes: NodesWithFolders, two: list[Path]
) -> None:
    sweep = start_sweep(WAITING)
    job = sweep.folder / "run_seed1"
    sweep.wait_for(lambda: metrics_lines(job) == 5)
    sweep.interrupt()
    assert sweep.end() == 0, sweep.output
    assert rows(sweep.folder)["run_seed1"]["status"] == "stopped"
    assert "has stopped at 500 agent steps" in sweep.output
    assert (job / "signals.txt").read_text() == "SIGTERM"
    assert (job / "Game_1" / "checkpoints" / "replays_0000000500.bin").read_bytes() == REPLAYS
    assert wait_until_gone(two) == []

    for folder in two:
        nodes.kill_with_folder(folder)
        shutil.rmtree(folder)
    third = nodes.add_with_folder()
    again = start_sweep(WAITING)
    assert again.end() == 0, again.output
    assert "continues at 500 agent steps on node" in again.output
    assert rows(again.folder)["run_seed1"]["status"] == "done"
    assert metrics_lines(job) == 10 and (job / "Game_2").is_dir()
    nodes.kill_with_folder(third)


@pytest.mark.by_hand
def test_a_run_whose_actor_is_killed_is_queued_again(
    start_sweep: StartSweep, nodes: NodesWithFolders, two: list[Path]
) -> None:
    sweep = start_sweep(WAITING)
    job = sweep.folder / "run_seed1"
    sweep.wait_for(lambda: checkpoints(job))
    (actor,) = nodes.jobs()
    actor.kill()
    assert sweep.end() == 0, sweep.output
    assert "has lost it (ActorDiedError); it goes on from its last checkpoint" in sweep.output
    assert "continues at 500 agent steps" in sweep.output
    assert rows(sweep.folder)["run_seed1"]["status"] == "done"
    assert wait_until_gone(two) == []


@pytest.mark.by_hand
def test_the_runs_of_a_killed_node_go_on_at_one_that_joins(start_sweep: StartSweep, nodes: NodesWithFolders) -> None:
    first = nodes.add_with_folder()
    sweep = start_sweep(WAITING)
    job = sweep.folder / "run_seed1"
    sweep.wait_for(lambda: checkpoints(job))
    nodes.kill_with_folder(first)
    sweep.wait_for(lambda: "has left the cluster" in sweep.output)
    assert wait_until_gone([first]) == [], "the run ends with its node"
    second = nodes.add_with_folder()
    assert sweep.end() == 0, sweep.output
    assert "continues at 500 agent steps" in sweep.output
    assert rows(sweep.folder)["run_seed1"]["status"] == "done"
    nodes.kill_with_folder(second)


@pytest.mark.by_hand
def test_no_run_stays_on_any_node_if_the_sweep_is_killed(start_sweep: StartSweep, two: list[Path]) -> None:
    sweep = start_sweep({"flags": {"gamma": 0.6}, "runs": {"a": {"lr": 0.01}, "b": {"lr": 0.02}}})
    sweep.wait_for(lambda: all(checkpoints(sweep.folder / name) for name in ("a_seed1", "b_seed1")))
    assert len(processes_of(two)) >= 4, "a guard and a run on each node"
    os.kill(sweep.process.pid, signal.SIGKILL)
    assert wait_until_gone(two) == []
    again = start_sweep({"flags": {"gamma": 0.6}, "runs": {"a": {"lr": 0.01}, "b": {"lr": 0.02}}})
    assert again.end() == 0, again.output
    assert {row["status"] for row in rows(again.folder).values()} == {"done"}
    assert again.output.count("continues at 500 agent steps") == 2


@pytest.mark.by_hand
def test_a_node_with_other_code_or_none_is_left_out_and_said_once(
    start_sweep: StartSweep, nodes: NodesWithFolders, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    for package in [path.parent for path in ROOT.glob("*/__init__.py")]:
        shutil.copytree(package, other / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    for program in ("main.py", "option_flags.py"):
        shutil.copy(ROOT / program, other)
    with (other / "agents" / "vtrace.py").open("a") as file:
        file.write("# changed\n")
    added = [
        nodes.add_with_folder(4, RL_PLATFORM_CHECKOUT=str(other)),
        nodes.add_with_folder(4, RL_PLATFORM_CHECKOUT="/nowhere"),
        nodes.add_with_folder(),
    ]
    sweep = start_sweep(RUNS)
    assert sweep.end() == 0, sweep.output
    left_out = [line for line in sweep.lines if "is left out" in line]
    assert len(left_out) == 2, sweep.output
    assert sum("is another version" in line for line in left_out) == 1
    assert sum("it has no checkout of this program at /nowhere" in line for line in left_out) == 1
    assert {row["status"] for row in rows(sweep.folder).values()} == {"done"}
    assert len(set(re.findall(r"starts on node (\S+), log in", sweep.output))) == 1
    for folder in added:
        nodes.kill_with_folder(folder)


@pytest.mark.by_hand
def test_a_hopeless_trial_is_stopped_on_its_node(start_sweep: StartSweep, two: list[Path]) -> None:
    pytest.importorskip("optuna")
    search = {"lr": {"choices": [0.01, 0.001]}}
    pruner = {"type": "median", "startup_trials": 1, "warmup_steps": 300, "interval_steps": 100}
    sampler = {"type": "random", "seed": 2}
    sweep = start_sweep({"search": search, "trials": 5, "sampler": sampler, "pruner": pruner}, "--jobs=1")
    assert sweep.end() == 0, sweep.output
    ends = {(row["differs"], row["status"]) for row in rows(sweep.folder).values()}
    assert ends == {("lr 0.01", "done"), ("lr 0.001", "pruned")}, sweep.output


@pytest.mark.by_hand
def test_paths_in_files_are_those_of_the_sweep(start_sweep: StartSweep, two: list[Path], tmp_path: Path) -> None:
    """The real main.py on a node, stopped and continued: its files name no path of the node."""
    small = {"worker_count": 1, "envs_per_worker": 2, "batch_size": 2, "r_f_steps": 5, "console_period": 0.2}
    definition = {"flags": {**small, "learner_threads": 1, "report_period": 10, "save_model_period": 1}}
    sweep = start_sweep(definition, "--environment_max_steps=100000000", program=ROOT / "main.py")
    job = sweep.folder / "run_seed1"
    sweep.wait_for(lambda: list(job.glob("*/checkpoints/checkpoint_*.pt")), 120)
    sweep.interrupt()
    assert sweep.end() == 0, sweep.output
    (row,) = rows(sweep.folder).values()
    assert row["status"] == "stopped"
    run = sweep.folder / row["folder"]
    texts = [path.read_text() for path in (job / "log.txt", run / "config.json", run / "summary.json")]
    assert all("rl_program_" not in text for text in texts)
    assert f"--load_model_url={run}" in json.loads(texts[-1])["go_on"]

    enough = int(row["agent_steps"]) + 50
    ended = start_sweep(definition, f"--environment_max_steps={enough}", program=ROOT / "main.py")
    assert ended.end(120) == 0, ended.output
    (row,) = rows(sweep.folder).values()
    assert (row["status"], row["agent_steps"]) == ("done", str(enough))
    assert find_checkpoint(str(sweep.folder / row["folder"])).options["results_dir"] == "results"
    assert json.loads((sweep.folder / row["folder"] / "config.json").read_text())["parent"]["run"] == str(run)
