"""The stages that draw from a replay."""

import json
from collections.abc import Callable

import numpy as np

from option_flags import Config
from replay.mix import Replay
from replay.queue import QueueReplay
from replay.row_layout import Rows
from tests.benchmarks.stages import Bench
from tests.benchmarks.timing import Stage
from training.make_replays import make_replays

CAPACITY = 200
LONG = 1e9  # λ does not fall while it is measured
REPLAYS: dict[str, dict[str, str | float]] = {
    "queue": {"type": "queue"},
    "standard": {"type": "standard"},
    "attentive": {"type": "attentive"},
    "elite": {"type": "elite"},
    "attentive, λ = 6": {"type": "attentive", "lambda_batch_multiplier": 6, "alfa_annealing_factor": LONG},
    "elite, λ = 6": {"type": "elite", "lambda_batch_multiplier": 6, "alfa_annealing_factor": LONG},
}


def replay_name(name: str) -> str:
    return f"drawing, {name}"


def replay_stages(config: Config) -> list[Stage]:
    """Each stage draws half a batch. Times are per step drawn; those of the queue include adding, as it empties."""
    stages = []
    for name, keys in REPLAYS.items():
        halves = [
            {"type": "queue", "capacity": 1, "sample_ratio": 0.5},
            {**keys, "capacity": CAPACITY, "sample_ratio": 0.5},
        ]
        bench = Bench(config.replace_flags(replay_parameters=json.dumps(halves)))
        replay = make_replays(
            bench.config.replay, bench.layout, np.random.SeedSequence(0), bench.learner().network, planned_updates=10**9
        )[1]
        if not isinstance(replay, QueueReplay):
            for index in range(CAPACITY):
                replay.add(bench.rows[index % len(bench.rows)])
        stages.append(
            Stage(
                replay_name(name),
                drawing(replay, bench.rows, bench.layout.nbytes),
                replay.share * bench.layout.unroll_length,
                in_learner=True,
            )
        )
    return stages


def drawing(replay: Replay, rows: Rows, nbytes: int) -> Callable[[], object]:
    out = np.zeros((replay.share, nbytes), np.uint8)

    def fill_and_draw() -> None:
        for row in rows[: replay.share]:
            replay.add(row)
        replay.draw(out, 0)

    return fill_and_draw if replay.is_fresh else lambda: replay.draw(out, 0)
