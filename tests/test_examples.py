"""The examples of the documents run: an environment and a network of one's own."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from docs.examples.my_environment import Goal
from tests.read_metrics import read_metrics

ROOT = Path(__file__).resolve().parents[1]
SMALL = [
    *("--environment_max_steps=1000", "--worker_count=1", "--envs_per_worker=4", "--batch_size=4", "--seed=1"),
    "--nocurves",
]


def test_gymnasium_has_no_complaints_about_the_environment() -> None:
    check_env(gymnasium.make("Goal-v0", render_mode="rgb_array").unwrapped)


def test_the_goal_ends_a_game_of_the_environment() -> None:
    env = Goal(size=3)
    env.reset(seed=0)
    env.agent, env.goal = np.array([0, 0]), np.array([0, 1])
    seen, reward, terminated, truncated, _ = env.step(0)
    assert (seen.tolist(), reward, terminated, truncated) == ([0, 1, 0, 1], 1.0, True, False)


def command_in_documents() -> list[str]:
    """The command that trains the example in a folder of the user's."""
    text = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if "<checkout>/main.py" in line and "Goal-v0" in line]
    (line,) = [line for line in lines if "--env_kwargs" in line]
    words = shlex.split(line.replace("<checkout>", shlex.quote(str(ROOT))))[1:]
    return [word for word in words if "environment_max_steps" not in word]


@pytest.mark.slow
@pytest.mark.parametrize("network", [[], ["--network=my_network:make_torso"]])
def test_the_command_trains_in_the_folder_of_the_user(network: list[str], tmp_path: Path) -> None:
    for name in ("my_environment.py", "my_network.py"):
        shutil.copy(ROOT / "docs" / "examples" / name, tmp_path)
    words = [*command_in_documents(), *network, *SMALL, "--console=plain"]
    run = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200
    )
    assert run.returncode == 0, run.stderr
    (folder,) = (tmp_path / "results").iterdir()
    assert json.loads((folder / "summary.json").read_text())["status"] == "finished"
    assert read_metrics(folder / "metrics.jsonl")
    # The last line is a command that works in this folder.
    _, program, *_ = shlex.split(run.stdout.splitlines()[-1].removeprefix("resume with: "))
    assert program == str(ROOT / "main.py")
