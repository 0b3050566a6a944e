"""States of a training, for tests of its displays."""

import dataclasses

from reports.terminal.run_display import ReplayFill, Status

STATUS = Status(
    agent_steps=4_130_000,
    max_steps=10_000_000,
    frames=16_520_000,
    frames_per_step=4,
    updates=31_250,
    planned_updates=76_923,
    seconds=1531.0,
    steps_per_second=2700.0,
    episodes=1234,
    return_mean=14.5,
    return_window=100,
    return_last=18.0,
    return_max=21.0,
    policy_loss=-0.0123,
    value_loss=0.0345,
    entropy=1.2345,
    gradient_norm=0.41,
    learning_rate=4.12e-4,
    policy_lag_mean=3.2,
    replays=[ReplayFill("queue", 3, 16, 4), ReplayFill("attentive", 812, 1000, 4, needed=500)],
    is_warming_up=False,
    learner_wait_fraction=0.12,
    workers_alive=2,
    worker_count=2,
    worker_restarts=0,
    memory_mb=816.0,
    cpu_learner=98.2,
    cpu_workers=187.4,
    workers_in_games=0.61,
    gpu_utilization=None,
    starting=False,
    action_timing={},
)
STARTING = dataclasses.replace(STATUS, agent_steps=0, frames=0, workers_alive=1, starting=True)
WARMING_UP = dataclasses.replace(
    STATUS,
    updates=0,
    return_mean=None,
    return_last=None,
    return_max=None,
    policy_loss=None,
    value_loss=None,
    entropy=None,
    gradient_norm=None,
    policy_lag_mean=None,
    replays=[ReplayFill("queue", 0, 16, 4), ReplayFill("attentive", 215, 1000, 4, needed=500)],
    is_warming_up=True,
)
