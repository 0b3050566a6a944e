"""The gateway process: the only process of a run that loads Ray. The learner starts it and never waits for it."""

import os
from dataclasses import dataclass
from multiprocessing.connection import Connection

from cluster.round_format import RoundSlots
from workers.memory.shared_weights import SharedWeights


@dataclass(frozen=True)
class Gateway:
    """What the gateway process gets when it starts, and what it does."""

    address: str  # of the head
    spec: bytes  # a pickled PlayerSpec, which only nodes unpickle
    code: str  # the version of the code at the start of the run
    begun: float  # time at which the run began
    seed: int
    resume_count: int
    restart_index: int  # gateways before this one in the same run
    node_workers: int
    weights: SharedWeights
    weights_interval: float
    bfloat16: bool  # whether weights travel in this format
    round_slots: RoundSlots

    def run(self, connection: Connection) -> None:
        """Serve the learner until it closes the connection."""
        quiet_ray()
        from cluster.gateway_loop import serve

        serve(self, connection)


def quiet_ray() -> None:
    """Settings that Ray reads when it is loaded; what it prints goes nowhere, because its log files have it all."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_task_events_report_interval_ms"] = "0"  # noqa: SIM112  # or the head notes every call
    os.environ["RAY_DEDUP_LOGS"] = "0"
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
