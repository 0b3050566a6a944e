"""Plays on a node: an ordinary worker pool that plays a round for each request, and packs it for the learner."""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from typing import Any

import torch
from numpy.typing import NDArray

from agents.acting import weight_count
from agents.network import make_network
from agents.spaces import make_unroll_layout
from cluster.played_code import difference, played_code
from cluster.round_format import pack_round
from machine.capacity import usable_memory
from machine.device import choose_precision
from machine.machine_setup import Machine
from machine.process_memory import GAME_BYTES, PART_OF_FREE, PROCESS_BYTES, format_bytes
from machine.system_settings import keep_freed_memory
from option_flags import Config
from options.rules import UsageError
from replay.row_layout import Rows
from replay.storage import UnrollCodec
from replay.unroll_layout import UnrollLayout
from workers.actors import make_pool
from workers.flow_control import PlayOnRequest
from workers.memory.shared_weights import SharedWeights
from workers.worker import PlaySetup
from workers.worker_clock import WorkerTimes
from wrappers.environment import MakeEnvironment

SLOTS_PER_WORKER = 2  # while one round is packed, its worker can play the next one
LONGEST_WAIT = 1.0  # seconds after which the pool looks for workers that hang
CPU = torch.device("cpu")


@dataclass(frozen=True)
class PlayerSpec:
    """What all nodes play; the same for each of them."""

    config: Config  # of the learner
    make_environment: MakeEnvironment
    layout: UnrollLayout
    resume_count: int
    code: Mapping[str, str]  # `played_code` of the learner when it started


def why_not_playable(spec: PlayerSpec, workers: int) -> str | None:
    """What is wrong with this machine, as the end of a sentence; None if it can play."""
    try:
        layout = make_unroll_layout(spec.config, spec.make_environment)
    except UsageError as error:
        return f"it cannot make the games: {error}"
    try:
        other = difference(played_code(spec.config), spec.code)
        if other is not None:
            return other
        if layout.fingerprint != spec.layout.fingerprint:
            return (
                "its games have other observations or actions than the learner's; the same versions of the libraries "
                "and of the games would be right"
            )
        make_network(spec.config.network, layout, torch.float32)
    except UsageError as error:  # in a module of the user's
        return str(error)
    games = spec.config.workers.envs_per_worker
    needed = workers * (PROCESS_BYTES + games * (GAME_BYTES + SLOTS_PER_WORKER * layout.nbytes))
    room = int(PART_OF_FREE * usable_memory())
    if needed > room:
        return (
            f"it has {format_bytes(room)} of free memory, and {workers} workers need {format_bytes(needed)}; a smaller "
            "--node_workers or --envs_per_worker would be right"
        )
    return None


class NodePlayer:
    """Runs the pool in a thread. Each request is answered with the bytes of one round, as in `round_format.py`."""

    def __init__(self, spec: PlayerSpec, number: int, seed: int, workers: int) -> None:
        """`number` is that of the rounds' header; `seed` is of this player alone, so its games are its own."""
        self.workers = workers
        self._spec = spec
        self._number = number
        config = replace(spec.config, run=replace(spec.config.run, seed=seed))
        self._config = replace(config, workers=replace(config.workers, inference="worker"))
        self._layout = spec.layout
        self._codec = UnrollCodec(spec.layout, spec.config.replay.lz4_compression_level)
        precision = choose_precision(config.run.precision, CPU)
        self._machine = Machine(CPU, precision, precision, workers, SLOTS_PER_WORKER, learner_threads=1)
        self._weights = SharedWeights(weight_count(make_network(config.network, spec.layout, precision)))
        self._flat = torch.zeros(self._weights.weight_count)
        self._flow_control = PlayOnRequest()
        self._requests: deque[Future[bytes]] = deque()
        self._sequence = 0
        self._restarts = 0
        self._notices: deque[str] = deque(maxlen=100)
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._wake_receiver, self._wake_sender = Pipe(duplex=False)
        self._closing = False
        self._thread: threading.Thread | None = None

    def load_weights(self, version: int, weights: NDArray[Any]) -> None:
        """Weights `[weight_count]` for the next rounds; the first ones start the workers.

        float32, or the bits of bfloat16 as int16.
        """
        vector = torch.from_numpy(weights)
        self._flat.copy_(vector.view(torch.bfloat16) if vector.dtype == torch.int16 else vector)
        self._weights.publish(version, self._flat)
        if self._thread is None:
            torch.set_num_threads(1)  # the cores are the workers'
            keep_freed_memory()
            self._thread = threading.Thread(target=self._run, name="player", daemon=True)
            self._thread.start()

    def request(self) -> "Future[bytes]":
        """Ask for one round. The future gets its bytes, or the error that ended the pool."""
        future: Future[bytes] = Future()
        with self._lock:
            if self._error is None:
                self._requests.append(future)
            else:
                future.set_exception(self._error)
        self._wake()
        return future

    def figures(self) -> dict[str, Any]:
        """How the pool is, and the sentences since the last call."""
        notices = [self._notices.popleft() for _ in range(len(self._notices))]
        return {"restarts": self._restarts, "notices": notices}

    def close(self) -> None:
        """End the workers; open requests are not answered."""
        self._closing = True
        self._wake()
        if self._thread is not None:
            self._thread.join()

    def _wake(self) -> None:
        if not self._wake_receiver.poll():  # one byte is enough, and more could fill the pipe
            self._wake_sender.send_bytes(b"!")

    def _run(self) -> None:
        try:
            self._play()
        except BaseException as error:  # any error ends the pool, and the requests tell it
            with self._lock:
                self._error = error
                for future in self._requests:
                    future.set_exception(error)
                self._requests.clear()

    def _play(self) -> None:
        times = WorkerTimes(self.workers + 1)
        spec = self._spec
        setup = PlaySetup(self._config, spec.make_environment, spec.layout, self._machine, spec.resume_count)
        pool = make_pool(setup, self._weights, times, self._notices.append, self._flow_control)
        try:
            while not self._closing:
                with self._lock:
                    self._flow_control.limit = len(self._requests)
                pool.wait(LONGEST_WAIT, [self._wake_receiver])
                while self._wake_receiver.poll():
                    self._wake_receiver.recv_bytes()
                self._restarts = pool.restarts
                while pool.rounds_ready and self._requests:
                    with self._lock:  # taking the round frees its slot, which must not be filled for the same request
                        self._flow_control.limit = len(self._requests) - 1
                    content = self._pack(pool.take(self._config.workers.envs_per_worker))
                    with self._lock:
                        self._requests.popleft().set_result(content)
        finally:
            pool.close()

    def _pack(self, rows: Iterator[Rows]) -> bytes:
        """One round. Each row is read before the next one is taken: then its slot may be filled again."""
        versions, blobs = [], []
        for row in rows:
            versions.append(int(self._layout.array(row, "weight_version")))
            blobs.append(self._codec.encode(row))
        content = pack_round(self._layout.fingerprint, self._number, self._sequence, versions, blobs)
        self._sequence += 1
        return content
