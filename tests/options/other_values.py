"""A valid value other than the default, for every option. They can all be given together."""

import json
from dataclasses import Field
from typing import Any

from option_flags import OPTIONS
from options.rules import Rule

BY_HAND: dict[str, Any] = {
    "load_model_url": "results/run",
    "stop_at": "return:1",
    "run_name": "first-try",
    "tags": "baseline,lr_1e-3",
    "results_dir": "elsewhere",
    "device": "cuda:1",
    "env": "BreakoutNoFrameskip-v4",
    "env_kwargs": '{"sutton_barto_reward": true}',
    "env_wrapper": "minigrid.wrappers:ImgObsWrapper",
    "frame_scale_resolution": "96,72",
    "episode_info": "success,stats.coins",
    "inference_latency": "uniform:20:80",
    "cluster": "192.0.2.1:6379",
    "learners": 0,
    "batch_size": 6,
    "replay_parameters": json.dumps(
        [
            {"type": "queue", "capacity": 2, "sample_ratio": 0.5},
            {"type": "standard", "capacity": 50, "sample_ratio": 0.5},
        ]
    ),
    "network": "impala_deep",
    "rho_const": 3.0,
    "wandb_project": "mine",
    "metrics_host": "0.0.0.0",
}


def _other_value(item: Field[Any]) -> Any:
    rule: Rule = item.metadata["rule"]
    if rule.kind is bool:
        return not item.default
    number: Any = 0 if rule.choices or item.default is None else item.default
    values = rule.choices or [rule.kind(other) for other in (number + 1, number / 2, number + 0.25)]
    return next(value for value in values if value != item.default and rule.accepts(value))


OTHER_VALUES = {name: BY_HAND[name] if name in BY_HAND else _other_value(item) for name, item in OPTIONS.items()}
