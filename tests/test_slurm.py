"""docs/examples/slurm.sh, with stand-ins for Slurm's commands."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.options.words import parse

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "examples" / "slurm.sh"
JOB = {"SLURM_JOB_NAME": "pong", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3", "SLURM_CPUS_PER_TASK": "16"}
# What the stand-ins print or do: a run of main.py leaves its status, and its exit code.
COMMANDS = {
    "srun": 'echo $@ >calls; [ -z "$STATUS" ] || printf \'{"status": "%s"}\' $STATUS >"$RUN/summary.json"; exit $CODE',
    "squeue": '[ "$*" = "-h -j 7_3 -o %T" ] && echo $STATE',
    "scontrol": 'echo "$@" >requeued',
}


def submit(folder: Path, status: str = "", code: int = 0, state: str = "RUNNING") -> int:
    """Run the script as Slurm would, in a checkout `folder`."""
    for name, line in {**{f"bin/{name}": line for name, line in COMMANDS.items()}, ".venv/bin/activate": ""}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#!/bin/bash\n{line}\n")
        (folder / name).chmod(0o755)
    run = run_folder(folder, "Pong_2")
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    told = {"PATH": path, "STATUS": status, "CODE": str(code), "STATE": state, "RUN": str(run)}
    return subprocess.run(["bash", str(SCRIPT)], cwd=folder, env={**JOB, **told}, timeout=60, check=False).returncode


def run_folder(folder: Path, name: str, status: str | None = None, has_saved: bool = False) -> Path:
    run = folder / "results" / "pong" / "seed_3" / name
    (run / "checkpoints").mkdir(parents=True, exist_ok=True)
    if has_saved:
        (run / "checkpoints" / "checkpoint_0000000100.pt").touch()
    if status:
        (run / "summary.json").write_text(json.dumps({"status": status}, indent=2))
    return run


def given(folder: Path) -> list[str]:
    """The flags of main.py."""
    words = shlex.split((folder / "calls").read_text())
    assert words[:3] == ["--cpus-per-task=16", "python", "main.py"]
    return words[3:]


def test_the_first_job_begins_a_run_with_the_seed_of_its_place_in_the_array(tmp_path: Path) -> None:
    assert submit(tmp_path, "finished") == 0
    config = parse(given(tmp_path))
    assert (config.run.op_mode, config.seed, config.report.console) == ("train", 3, "plain")
    assert not (tmp_path / "requeued").exists()


@pytest.mark.parametrize("status", ["stopped", "running", "failed"])
def test_a_job_goes_on_with_the_run_that_has_saved_last(tmp_path: Path, status: str) -> None:
    run_folder(tmp_path, "Pong_1", status, has_saved=True)
    run_folder(tmp_path, "Pong_2", "running")  # killed before its first checkpoint
    assert submit(tmp_path, "finished") == 0
    assert given(tmp_path)[:2] == ["--op_mode=train_w_load", "--load_model_url=results/pong/seed_3/Pong_1"]


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    run_folder(tmp_path, "Pong_1", "finished", has_saved=True)
    assert submit(tmp_path) == 0
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize(
    ("status", "code", "state", "is_queued"),
    [
        ("stopped", 0, "RUNNING", True),
        ("", 143, "RUNNING", True),  # it was only starting
        ("stopped", 0, "COMPLETING", False),  # after scancel
        ("failed", 1, "RUNNING", False),
    ],
)
def test_a_job_that_a_signal_has_stopped_is_queued_again(
    tmp_path: Path, status: str, code: int, state: str, is_queued: bool
) -> None:
    assert submit(tmp_path, status, code, state) == code
    assert (tmp_path / "requeued").exists() == is_queued
    if is_queued:
        assert (tmp_path / "requeued").read_text().split() == ["requeue", "7_3"]
