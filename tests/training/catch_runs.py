"""Short training runs of Catch, new or resumed."""

from pathlib import Path
from typing import Any

from option_flags import Config, merged
from run_files.checkpoint import find_checkpoint
from tests.catch import make_catch
from tests.read_metrics import read_metrics
from training.train import train
from wrappers.environment import MakeEnvironment

MIXED = (
    '[{"type": "queue", "capacity": 3, "sample_ratio": 0.5}, {"type": "standard", "capacity": 40, "sample_ratio": 0.5}]'
)
CATCH: dict[str, Any] = {
    **{"seed": 1, "worker_count": 1, "envs_per_worker": 8, "r_f_steps": 10, "batch_size": 8, "frames_stacked": 1},
    **{"report_period": 400, "precision": "float32", "console": "off", "curves": False},
    **{"replay_parameters": MIXED, "lr_scheduler_steps": 500},
}


def catch_run(results: Path, **flags: Any) -> Path:
    return train(Config.from_flags({**CATCH, "results_dir": str(results), **flags}), make_catch)


def resume_run(folder: Path, make_environment: MakeEnvironment, **flags: Any) -> Path:
    """Resume a run as main.py does: flags take precedence over the options of the checkpoint."""
    parent = find_checkpoint(str(folder))
    own = {"op_mode": "train_w_load", "load_model_url": str(folder)}
    return train(Config.from_flags(merged(parent.options, {**own, **flags})), make_environment, parent)


def reports(folder: Path) -> list[dict[str, Any]]:
    return [dict(report) for report in read_metrics(folder / "metrics.jsonl")]
