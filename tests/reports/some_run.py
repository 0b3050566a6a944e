"""Writes run folders with the files of a training, without training."""

import json
from pathlib import Path
from typing import Any

from option_flags import Config


def write_run(
    folder: Path,
    steps: range = range(1000, 21_000, 1000),
    *,
    parent: dict[str, Any] | None = None,
    raised: float = 0.0,
    more: dict[str, Any] | None = None,
    machine: dict[str, Any] | None = None,
    weights_from: dict[str, Any] | None = None,
    **options: Any,
) -> Path:
    """Write a run with a report at each of `steps`; its return is the number of steps in thousands plus `raised`."""
    folder.mkdir(parents=True)
    flags = Config.from_flags({"seed": 1, **options}).flags()
    config = {"options": flags, "machine": machine or {}, "parent": parent, "weights_from": weights_from}
    (folder / "config.json").write_text(json.dumps(config))
    reports = [report(at, at / 1000 + raised) | (more or {}) for at in steps]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in reports))
    games = [f"{at - 7},{at / 1000 + raised},100,0\n" for at in steps]
    (folder / "episodes.csv").write_text("agent_steps,return,length,worker\n" + "".join(games))
    return folder


def report(at: int, mean: float) -> dict[str, Any]:
    return {
        "time": 1.7e9 + at,
        "seconds": at / 500,
        "agent_steps": at,
        "frames": 4 * at,
        "return_mean": mean if at > 1000 else None,
        "policy_loss": 0.01,
        "value_loss": 0.5,
        "proximal_loss": 0.0,
        "policy_cloning_loss": 0.0,
        "entropy": 1.5,
        "gradient_norm": 0.3,
        "kl_fresh": 1e-3,
        "kl_replayed": None,
        "policy_lag_mean": 3.5,
        "policy_lag_max": 5,
        "steps_per_second": 2000.0,
        "time_shares": {"wait": 0.1, "update": 0.9},
    }
