"""The examples of the documents run: an environment and a network of one's own."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from docs.examples.my_environment import Goal
from run_files.metrics import read_metrics

ROOT = Path(__file__).resolve().parents[1]
SMALL = ["--environment_max_steps=4000", "--worker_count=1", "--envs_per_worker=4", "--batch_size=4", "--seed=1"]


def test_gymnasium_has_no_complaints_about_the_environment() -> None:
    check_env(gymnasium.make("Goal-v0", render_mode="rgb_array").unwrapped)


def test_the_goal_ends_a_game_of_the_environment() -> None:
    env = Goal(size=3)
    env.reset(seed=0)
    env.agent, env.goal = np.array([0, 0]), np.array([0, 1])
    seen, reward, terminated, truncated, _ = env.step(0)
    assert (seen.tolist(), reward, terminated, truncated) == ([0, 1, 0, 1], 1.0, True, False)


def command_in_documents() -> list[str]:
    """The command that trains the example."""
    text = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    (line,) = [line.strip() for line in text.splitlines() if "my_environment:Goal-v0" in line and "main.py" in line]
    return [word for word in shlex.split(line)[1:] if "environment_max_steps" not in word]


@pytest.mark.slow
@pytest.mark.parametrize("network", [[], ["--network=docs.examples.my_network:make_torso"]])
def test_the_command_trains(network: list[str], tmp_path: Path) -> None:
    words = [*command_in_documents(), *network, *SMALL, f"--results_dir={tmp_path}", "--console=plain"]
    run = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=200, env=os.environ
    )
    assert run.returncode == 0, run.stderr
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "summary.json").read_text())["status"] == "finished"
    assert read_metrics(folder / "metrics.jsonl")


@pytest.mark.slow
def test_an_environment_in_the_current_folder_trains(tmp_path: Path) -> None:
    (tmp_path / "my_environment.py").write_text((ROOT / "docs" / "examples" / "my_environment.py").read_text())
    words = ["--env=my_environment:Goal-v0", *SMALL, "--results_dir=runs", "--console=off"]
    run = subprocess.run(
        [sys.executable, str(ROOT / "main.py"), *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert run.returncode == 0, run.stderr
