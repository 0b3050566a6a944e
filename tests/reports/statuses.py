"""States of a training, for tests of its displays."""

import dataclasses
from typing import Any

from reports.run_display import ReplayFill, Status


def changed(status: Status, **values: Any) -> Status:
    """The same state with other values: of its fields, or of its figures."""
    fields = {field.name for field in dataclasses.fields(Status)}
    own = {name: value for name, value in values.items() if name in fields}
    figures = {name: value for name, value in values.items() if name not in fields}
    return dataclasses.replace(status, **own, figures={**status.figures, **figures})


STATUS = Status(
    figures={
        **{"agent_steps": 4_130_000, "frames": 16_520_000, "updates": 31_250, "seconds": 1531.0, "episodes": 1234},
        **{"return_mean": 14.5, "return_max": 21.0, "policy_loss": -0.0123, "value_loss": 0.0345, "entropy": 1.2345},
        **{"gradient_norm": 0.41, "learning_rate": 4.12e-4, "policy_lag_mean": 3.2, "learner_wait_fraction": 0.12},
        **{"worker_restarts": 0, "memory_learner_mb": 500.0, "memory_workers_mb": 316.0, "cpu_learner": 98.2},
        **{"cpu_workers": 187.4, "worker_time_shares": {"environment": 0.61}, "gpu_utilization": None},
        **{"max_steps": 10_000_000, "planned_updates": 76_923, "return_window": 100, "return_last": 18.0},
        **{"speed": 2700.0, "frames_per_step": 4, "workers_alive": 2, "worker_count": 2},
    },
    replays=[ReplayFill("queue", 3, 16, 4), ReplayFill("attentive", 812, 1000, 4, needed=500)],
)
STARTING = changed(STATUS, agent_steps=0, frames=0, workers_alive=1, starting=True)
WARMING_UP = changed(
    STATUS,
    updates=0,
    **dict.fromkeys(("return_mean", "return_last", "return_max", "policy_loss", "value_loss", "entropy")),
    gradient_norm=None,
    policy_lag_mean=None,
    replays=[ReplayFill("queue", 0, 16, 4), ReplayFill("attentive", 215, 1000, 4, needed=500)],
    is_warming_up=True,
)
