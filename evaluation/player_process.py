"""A process that plays complete games with one policy: it receives game numbers and sends results."""

from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import torch

from agents.acting import Actor
from agents.network import make_network
from evaluation.parallel_games import ParallelGames
from evaluation.realtime_games import play_in_real_time
from machine.system_settings import lower_priority, use_one_thread
from option_flags import EnvironmentOptions, NetworkOptions, RealtimeOptions
from processes.inside import Heartbeat
from processes.messages import Kind, receive, send
from replay.unroll_layout import UnrollLayout
from workers.memory.shared_weights import NewestWeights, SharedWeights
from workers.random_streams import stream_of
from workers.realtime.requirements import latency_model
from workers.realtime.session import RealtimeSetup
from wrappers.environment import MakeEnvironment


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
    realtime: RealtimeOptions = field(default_factory=RealtimeOptions)
    inference_processes: int = 0  # with --interaction=realtime
    timeout: float = 120.0  # seconds of silence after which the player, or its inference process, counts as hanging

    def run(self, connection: Connection) -> None:
        """Play each game whose number arrives, until the parent closes the connection."""
        use_one_thread()
        alive = Heartbeat(connection)
        if self.environment.in_real_time:
            self._lower_priority()
            play_in_real_time(
                self._realtime_setup(),
                self.make_environment,
                self.seed,
                connection,
                slots=self.slots,
                greedy=self.greedy,
                logged=self.logged,
                alive=alive,
            )
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
            alive=alive,
        )
        games.start(receive(connection).index)
        self._lower_priority()  # not before: code is imported for the first game, in one silence
        while True:
            while not games.running or connection.poll():
                games.start(receive(connection).index)
            for result in games.step():
                send(connection, Kind.RESULT, payload=result)

    def _lower_priority(self) -> None:
        if self.low_priority:
            lower_priority()

    def _realtime_setup(self) -> RealtimeSetup:
        return RealtimeSetup(
            environment=self.environment,
            realtime=self.realtime,
            network=self.network,
            layout=self.layout,
            compute_dtype=self.compute_dtype,
            weights=self.weights,
            latency=latency_model(self.realtime),
            processes=self.inference_processes,
            timeout=self.timeout,
            seed=stream_of("latency", *self.seed),
        )
