"""How the players and films of these tests are started."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest
import torch

from evaluation.parallel_games import GameSeries
from evaluation.players import PlayerProcess
from option_flags import NetworkOptions, RealtimeOptions
from processes.child import Child, start_child
from processes.fork_server import ForkServer
from processes.pool import ChildPool
from replay.unroll_layout import UnrollLayout
from workers.realtime.inference import RealtimeSetup
from workers.shared_weights import SharedWeights

Start = Callable[[Any, str], Child]


def some_player(
    series: GameSeries, network: NetworkOptions, layout: UnrollLayout, weights: SharedWeights
) -> PlayerProcess:
    setup = RealtimeSetup(
        environment=series.environment,
        realtime=RealtimeOptions(),
        network=network,
        layout=layout,
        compute_dtype=torch.float32,
        weights=weights,
        processes=0,
        timeout=100.0,
        seed=series.seed,
    )
    return PlayerProcess(series=series, setup=setup, low_priority=True)


@pytest.fixture(scope="session")
def start() -> Iterator[Start]:
    """Starts a process in a hundredth of a second, not in the three of torch."""
    modules = ["evaluation.players", "tests.catch", "tests.wrappers.hand_written"]
    with closing(ForkServer(modules)) as server:
        yield partial(start_child, launch=server)


@pytest.fixture(autouse=True)
def _forked_players(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation.score_checkpoint.ChildPool", partial(ChildPool, start=start))
