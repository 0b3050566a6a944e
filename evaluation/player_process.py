"""A process that plays complete games with one policy: it receives game numbers and sends results."""

from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

from agents.acting import Actor
from agents.network import make_network
from evaluation.parallel_games import ParallelGames
from machine.system_settings import lower_priority, use_one_thread
from option_flags import EnvironmentOptions, NetworkOptions
from replay.unroll_layout import UnrollLayout
from workers.messages import Kind, receive, send
from workers.shared_weights import NewestWeights, SharedWeights
from wrappers.environment_types import MakeEnvironment


@dataclass(frozen=True, kw_only=True)
class PlayerProcess:
    """The arguments of the process, and its main function `run`."""

    make_environment: MakeEnvironment
    environment: EnvironmentOptions
    network: NetworkOptions
    layout: UnrollLayout
    compute_dtype: torch.dtype
    weights: SharedWeights  # published once, before the process starts
    seed: tuple[int, ...]
    slots: int  # games at once, the same in all processes of a test
    greedy: bool
    logged: int  # only games with a lower number keep a log
    low_priority: bool

    def run(self, connection: Connection) -> None:
        """Play each game whose number arrives, until the parent closes the connection."""
        if self.low_priority:
            lower_priority()
        use_one_thread()
        actor = Actor(make_network(self.network, self.layout, self.compute_dtype))
        NewestWeights(self.weights, actor, torch.device("cpu")).load()
        games = ParallelGames(
            self.make_environment,
            self.environment,
            actor,
            self.layout,
            self.seed,
            slots=self.slots,
            greedy=self.greedy,
            logged=self.logged,
        )
        while True:
            while not games.running or connection.poll():
                games.start(receive(connection).index)
            for result in games.step():
                send(connection, Kind.RESULT, payload=result)
