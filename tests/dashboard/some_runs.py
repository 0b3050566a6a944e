"""Folders as runs write them, with invented figures."""

import json
import time
from pathlib import Path
from typing import Any

import torch

from agents.network import ActorCritic
from agents.spaces import described_spaces, make_unroll_layout
from option_flags import Config
from run_files.checkpoint import checkpoint_name, write_checkpoint
from tests.run_files.some_checkpoint import some_content, some_learner, some_progress
from wrappers.environment import MakeEnvironment

NOW = time.time()


def write_run(
    folder: Path,
    *,
    reports: int = 20,
    status: str | None = "finished",
    why: str | None = None,
    age: float = 0.0,
    final_return: float = 18.0,
    parent: dict[str, Any] | None = None,
    weights_from: dict[str, Any] | None = None,
    machine: dict[str, Any] | None = None,
    games: int = 30,
    **flags: Any,
) -> Path:
    """A run with reports every 1,000 steps whose mean return rises from 0 to `final_return`; the last one is `age`
    seconds old. With `status=None` there is no summary.json, as in older versions."""
    folder.mkdir(parents=True)
    options = Config.from_flags({"environment_max_steps": 1000 * reports, "report_period": 1000, "seed": 1, **flags})
    config = {"options": options.flags(), "machine": machine or {"device": "cpu"}, "planned_updates": 100}
    config |= {"parent": parent, "weights_from": weights_from}
    (folder / "config.json").write_text(json.dumps(config))
    end = NOW - age
    lines = [report(i + 1, reports, final_return, end - (reports - i - 1)) for i in range(reports)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = [f"{(i + 1) * 1000 * reports // games},{i % 7}.0,100,0\n" for i in range(games)]
    (folder / "episodes.csv").write_text("agent_steps,return,length,worker\n" + "".join(rows))
    if status is not None:
        summary = {
            "status": status,
            "why": why,
            "time": end,
            "agent_steps": 1000 * reports,
            "return_mean": final_return,
        }
        summary |= {
            "return_max": final_return + 2,
            "seconds": float(reports),
            "go_on": f"python main.py --seed={reports}",
        }
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def report(number: int, reports: int, final_return: float, when: float) -> dict[str, Any]:
    """One line of metrics.jsonl."""
    share = number / reports
    return {
        "time": when,
        "seconds": float(number),
        "agent_steps": 1000 * number,
        "frames": 4000 * number,
        "updates": 6 * number,
        "steps_per_second": 1000.0,
        "episodes": number,
        "return_mean": final_return * share,
        "return_max": final_return + 2,
        "policy_loss": 0.02 / number,
        "value_loss": 0.05,
        "entropy": 1.8 - share,
        "policy_cloning_loss": 0.0,
        "kl_fresh": 0.01,
        "kl_replayed": 0.05,
        "policy_lag_mean": 7.5,
        "policy_lag_max": 12,
        "time_shares": {"wait": 0.1, "update": 0.9},
        "cpu_learner": 98.0,
        "cpu_workers": 150.0,
        "memory_learner_mb": 700.0,
        "gpu_utilization": None,
        "replays": {
            "0_queue": {"size": 1, "age_mean": 7.0, "times_drawn_mean": 1.0, "distance_drawn": None,
                        "distance_candidates": None, "lambda": 1.0},
            "1_elite": {"size": 500, "age_mean": 60.0, "times_drawn_mean": 2.0, "distance_drawn": 1.0,
                        "distance_candidates": 2.0, "lambda": 6.0},
        },
    }  # fmt: skip


def append_report(folder: Path, number: int, reports: int = 20, final_return: float = 18.0) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(report(number, reports, final_return, time.time())) + "\n")


def write_sweep(folder: Path, jobs: dict[str, dict[str, Any]], status: str = "done") -> Path:
    """A sweep: one run for each job, with its flags, and its log."""
    runs = {}
    for place, (name, flags) in enumerate(jobs.items()):
        write_run(folder / name / f"Run_{place}", final_return=10.0 + place, **flags)
        (folder / name / "log.txt").write_text("starting 2 workers\ndone 100%\n")
        runs[name] = {"flags": flags, "status": status}
    (folder / "sweep.json").write_text(json.dumps({"runs": runs}))
    return folder


def write_policy(folder: Path, make_environment: MakeEnvironment, updates: int, **flags: Any) -> Path:
    """A checkpoint of an untrained network, of a run with 100 agent steps for each update."""
    config = Config.from_flags({"seed": 5, "precision": "float32", **flags})
    layout = make_unroll_layout(config, make_environment)
    torch.manual_seed(updates)
    network = ActorCritic(config.network, layout, torch.float32)
    network.policy_head.weight.data *= 300  # a policy that depends on all that the network knows
    path = folder / "checkpoints" / checkpoint_name(updates)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = some_content(
        updates,
        options=config.flags(),
        spaces=described_spaces(layout),
        unroll=layout.fingerprint,
        learner=some_learner(network.state_dict(), updates),
        progress=some_progress(100 * updates, updates),
    )
    write_checkpoint(path, content)
    return path
