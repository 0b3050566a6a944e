"""A process that plays whole games with one policy: takes their numbers, plays them side by side, sends results."""

from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

from agents.acting import Actor
from agents.network import make_network
from evaluation.parallel_games import Games
from machine.system_settings import lower_priority, use_one_thread
from option_flags import EnvironmentOptions, NetworkOptions
from replay.unroll_layout import UnrollLayout
from workers.messages import Kind, receive, send
from workers.shared_weights import NewestWeights, SharedWeights
from wrappers.environment_types import MakeEnvironment


@dataclass(frozen=True, kw_only=True)
class Player:
    """All that a player's process is given."""

    make_environment: MakeEnvironment
    environment: EnvironmentOptions
    network: NetworkOptions
    layout: UnrollLayout
    compute_dtype: torch.dtype
    weights: SharedWeights  # published before the process starts, and never again
    seed: tuple[int, ...]
    greedy: bool
    logged: int  # games below this number come with a log
    low_priority: bool

    def run(self, connection: Connection) -> None:
        if self.low_priority:
            lower_priority()
        use_one_thread()
        actor = Actor(make_network(self.network, self.layout, self.compute_dtype))
        NewestWeights(self.weights, actor, torch.device("cpu")).load()
        games = Games(
            self.make_environment,
            self.environment,
            actor,
            self.layout,
            self.seed,
            greedy=self.greedy,
            logged=self.logged,
        )
        while True:
            while not games.under_way or connection.poll():
                games.begin(receive(connection).index)
            for result in games.step():
                send(connection, Kind.RESULT, payload=result)
