"""The content of a checkpoint, without a network, for tests that need a file only."""

from collections.abc import Mapping
from typing import Any

from option_flags import Config


def some_content(updates: int = 3, **parts: Any) -> dict[str, Any]:
    """All parts that a checkpoint has; `parts` replace them."""
    return {
        "options": Config().flags(),
        "spaces": {
            "frame_stack": 4,
            "frame_shape": [1, 84, 84],
            "vector_size": 0,
            "one_hot_size": 0,
            "vector_dtype": "float32",
            "action_kind": "discrete",
            "action_sizes": [6],
            "action_names": [],
        },
        "unroll": "0123456789abcdef",
        "resumes": 0,
        "planned_updates": 100,
        "learner": some_learner({}, updates),
        "progress": some_progress(100 * updates, updates),
        "in_flight": None,
        **parts,
    }


def some_learner(network: Mapping[str, Any], updates: int) -> dict[str, Any]:
    return {
        "updates": updates,
        "background_updates": 0,
        "network": dict(network),
        "optimizer": {"state": {}, "param_groups": [{"params": []}]},
    }


def some_progress(agent_steps: int, updates: int) -> dict[str, Any]:
    return {
        "agent_steps": agent_steps,
        "frames": 4 * agent_steps,
        "updates": updates,
        "episodes": 2,
        "seconds": 1.5,
        "recent_games": [{"return": 1.5, "length": 3.0}, {"return": -2.0, "length": 4.0}],
        "return_max": 1.5,
        "return_min": -2.0,
        "reached_goal": None,
        "best_return_mean": None,
        "best_return_steps": None,
        "best_eval_mean": None,
        "evaluated_steps": 0,
        "action_ms": None,
        "inference_processes": 0,
        "interval": None,
    }
