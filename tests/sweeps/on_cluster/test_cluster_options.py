"""What a sweep refuses before it uses a cluster."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from options.rules import UsageError
from sweeps.places import cpus_of_a_run
from sweeps.plan import Sweep, plan_sweep
from sweeps.search_plan import SearchPlan, plan_search
from tests.ports import free_ports
from tests.sweeps.fake_sweeps import ROOT, rows, run_sweep
from tests.sweeps.on_cluster.cluster_sweep import CPUS, ClusterSweep
from tests.sweeps.on_cluster.some_nodes import NodesWithFolders

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]  # two sweeps that may take 90 s each


def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, *words: str) -> str:
    """The one sentence that a sweep is refused with."""
    path, folder = tmp_path / "sweep.json", tmp_path / "sweep"
    path.write_text(json.dumps({"flags": {"lr": 0.01}}))
    assert run_sweep([f"--sweep={path}", f"--sweep_dir={folder}", *words]) == 2
    out, errors = capsys.readouterr()
    assert out == "" and errors.count("\n") == 1 and not folder.exists()
    return errors


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--cluster=here"], "--cluster must be auto, or the address of a head such as 192.0.2.1:6379"),
        (["--cluster=auto"], "--cluster must know the CPUs that each run uses"),
        (["--cluster=auto", "--job_cpus=2"], "--cluster must know the CPUs that each run uses"),
        (["--job_cpus=2"], "--job_cpus has no effect without --cluster"),
        (["--job_gpus=1"], "--job_gpus has no effect without --cluster"),
        (["--cluster=auto", "--job_cpus=0"], "--job_cpus must be a number above 0"),
        (["--cluster=auto", "--job_cpus=2", "--job_gpus=-1"], "--job_gpus must be a number of at least 0"),
    ],
)
def test_wrong_options_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert sentence in refused(capsys, tmp_path, *words)


@pytest.mark.parametrize(
    ("flags", "cpus"),
    [
        ({"worker_count": 7, "learner_threads": 1}, 8),
        ({"worker_count": 8, "learner_threads": 2, "learners": 4}, 16),
        ({"worker_count": 7}, None),
        ({"learner_threads": 1}, None),
        ({"worker_count": 7, "learner_threads": 1, "learners": 0}, None),
    ],
)
def test_the_cpus_of_a_run_are_those_that_it_uses(flags: dict[str, Any], cpus: int | None) -> None:
    search = {"flags": flags, "search": {"lr": {"choices": [0.1]}}}
    plans: list[Sweep | SearchPlan] = [plan_sweep({"flags": flags}, {}), plan_search(search, {})]
    for plan in plans:
        if cpus is None:
            with pytest.raises(UsageError, match="must know the CPUs that each run uses"):
                cpus_of_a_run(plan)
        else:
            assert cpus_of_a_run(plan) == cpus


def test_the_run_with_the_most_cpus_decides() -> None:
    sweep = {"flags": {"learner_threads": 1}, "grid": {"worker_count": [2, 5, 3]}}
    assert cpus_of_a_run(plan_sweep(sweep, {})) == 6
    search = {"flags": {"learner_threads": 1}, "search": {"worker_count": {"low": 2, "high": 5}}}
    assert cpus_of_a_run(plan_search(search, {})) == 6


def test_flags_that_are_valid_only_with_a_searched_one_are_no_hindrance() -> None:
    """No batch of 8 has five hundredths."""
    replays = [
        {"type": "queue", "capacity": 1, "sample_ratio": 0.05},
        {"type": "standard", "capacity": 100, "sample_ratio": 0.95},
    ]
    flags = {"worker_count": 3, "learner_threads": 1, "replay_parameters": replays}
    assert cpus_of_a_run(plan_search({"flags": flags, "search": {"batch_size": {"choices": [20, 40]}}}, {})) == 4


def test_a_wrong_address_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    sentence = refused(capsys, tmp_path, f"--cluster=127.0.0.1:{port}", *CPUS)
    assert f"--cluster=127.0.0.1:{port} does not answer (Connection refused)" in sentence


def test_a_cluster_that_does_not_answer_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this variable, Ray would find the clusters of other tests on this machine."""
    pytest.importorskip("ray")
    (port,) = free_ports(1)
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    sentence = refused(capsys, tmp_path, "--cluster=auto", *CPUS)
    assert "--cluster=auto does not answer (Connection refused)" in sentence


def test_a_missing_token_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    sentence = refused(capsys, tmp_path, "--cluster=auto", *CPUS)
    assert "with RAY_AUTH_MODE=token needs the token of the cluster" in sentence


def test_without_ray_one_sentence_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    sentence = refused(capsys, tmp_path, "--cluster=auto", *CPUS)
    assert sentence == "multi_train.py: --cluster=auto needs the package ray; run pip install 'ray>=2.60'.\n"


def test_without_a_cluster_ray_is_not_loaded() -> None:
    code = "import multi_train, sys; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_cluster_with_a_token_takes_sweeps_that_have_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another token is refused."""
    pytest.importorskip("ray")
    nodes = NodesWithFolders(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="a" * 64)
    try:
        nodes.add_with_folder()
        sweep = ClusterSweep(nodes, tmp_path / "sweep", {"flags": {"lr": 0.01}})
        assert sweep.end() == 0, sweep.output
        assert rows(sweep.folder)["run_seed1"]["status"] == "done"
        sweep.close()
        nodes.environment["RAY_AUTH_TOKEN"] = "b" * 64
        refused = ClusterSweep(nodes, tmp_path / "refused", {"flags": {"lr": 0.01}})
        assert refused.end() == 2, refused.output
        refused.close()
        assert "refuses the authentication token" in refused.output and len(refused.lines) == 1
        assert not (tmp_path / "refused" / "sweep.json").exists()
    finally:
        nodes.close()
