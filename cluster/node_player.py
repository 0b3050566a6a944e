"""Plays on a node: an ordinary worker pool that plays a round for each request, and packs it for the learner."""

import asyncio
import importlib.util
import pickle
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from agents.acting import weight_count
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from agents.torsos.own_torso import is_own
from cluster.node_actor import hash_of_files
from machine.capacity import bytes_of_processes, check_memory
from machine.device import choose_precision
from machine.machine_setup import Machine
from machine.system_settings import keep_freed_memory
from option_flags import Config
from options.rules import UsageError
from replay.storage import UnrollCodec
from workers.actors import make_pool
from workers.flow_control import PlayOnRequest
from workers.shared_array import make_times
from workers.shared_weights import SharedWeights
from workers.worker import PlaySetup
from workers.worker_pool import WorkerPool
from wrappers.any_environment.creation import import_module

SLOTS_PER_WORKER = 2  # while one round is packed, its worker can play the next one
LOOK_SECONDS = 1.0  # between two looks for workers that hang, or have to be started again
CPU = torch.device("cpu")


def check_player(setup: PlaySetup, code: Mapping[str, str], workers: int) -> None:
    """Raise a UsageError that says, as the end of a sentence, what is wrong with this machine.

    `code` is the `played_code` of the learner when it started.
    """
    try:
        layout = make_unroll_layout(setup.config, setup.make_environment)
    except UsageError as error:
        raise UsageError(f"it cannot make the games: {error}") from None
    own_code = played_code(setup.config)
    for name, expected in code.items():
        if (found := own_code.get(name, "nothing")) != expected:
            raise UsageError(f"its {name} has {found}, and the learner's has {expected}; the same would be right")
    if layout.fingerprint != setup.layout.fingerprint:
        raise UsageError(
            "its games have other observations or actions than the learner's; the same versions of the libraries and "
            "of the games would be right"
        )
    check_memory(bytes_of_processes(workers, setup.config.workers.envs_per_worker, layout.nbytes))


def played_code(config: Config) -> dict[str, str]:
    """What Gymnasium and each module that an option names have: a version, or a hash of the source files.

    Of a module in a package, it is the whole package. What these import is left out. UsageError if a module of the
    user's cannot be imported.
    """
    options, network = config.environment, config.network.network
    modules = {"gymnasium"}
    own_network = network if is_own(network) else None
    for flag, value in (("env", options.env), ("env_wrapper", options.env_wrapper), ("network", own_network)):
        if value is not None and ":" in value:
            module = value.partition(":")[0]
            import_module(module, f"--{flag}={value}")
            modules.add(module)
    names = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    return {name: _contents(name) for name in sorted(names)}


def _contents(name: str) -> str:
    """The version of an installed package; a hash of the source files of any other one."""
    with suppress(PackageNotFoundError):
        return f"version {version(name)}"
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return "nothing"
    path = Path(spec.origin)
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    return f"source files {hash_of_files((file.relative_to(path.parent), file) for file in files)}"


class NodePlayer:
    """Runs the pool in the event loop of the actor. Each request is answered with one round."""

    def __init__(self, pickled: bytes, seed: int, workers: int) -> None:
        """`pickled` are what the learner's workers play, and its `played_code`.

        `seed` is of this player alone, so its games are its own. UsageError as from `check_player`.
        """
        setup: PlaySetup
        setup, code = pickle.loads(pickled)
        check_player(setup, code, workers)
        config = replace(
            setup.config,
            run=replace(setup.config.run, seed=seed),
            workers=replace(setup.config.workers, inference="worker"),
        )
        precision = choose_precision(config.run.precision, CPU)
        machine = Machine(CPU, precision, precision, workers, SLOTS_PER_WORKER, learner_threads=1)
        self._setup = replace(setup, config=config, machine=machine, logs=None)
        self._codec = UnrollCodec(setup.layout, config.replay.lz4_compression_level)
        self._weights = SharedWeights(weight_count(ActorCritic(config.network, setup.layout, precision)))
        self._flat = torch.zeros(self._weights.weight_count)
        self._version = -1  # of the weights
        self._flow_control = PlayOnRequest()
        self._requests: deque[asyncio.Future[list[bytes]]] = deque()
        self._notices: deque[str] = deque(maxlen=100)
        self._restarts = 0
        self._pool: WorkerPool | None = None
        self._error: Exception | None = None  # that has ended the pool

    async def load_weights(self, version: int, weights: NDArray[Any]) -> None:
        """Weights `[weight_count]` for the next rounds. The first start the workers.

        float32, or the bits of bfloat16 as int16.
        """
        if version <= self._version:  # the network has repeated a call
            return
        vector = torch.from_numpy(weights)
        self._flat.copy_(vector.view(torch.bfloat16) if vector.dtype == torch.int16 else vector)
        self._weights.publish(version, self._flat)
        self._version = version
        if self._pool is None:
            torch.set_num_threads(1)  # the cores are the workers'
            keep_freed_memory()
            times = make_times(self._setup.machine.worker_count + 1)
            self._pool = make_pool(self._setup, self._weights, times, self._notices.append, self._flow_control)
            asyncio.get_running_loop().add_reader(self._pool.children, self._serve)
            self._watch = asyncio.create_task(self._look_after_workers())

    async def next_round(self) -> list[bytes]:
        """The compressed unrolls of one round, once it is played. Raises the error that has ended the pool."""
        if self._error is not None:
            raise self._error
        request: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        self._requests.append(request)
        self._serve()
        return await request

    def figures(self) -> dict[str, Any]:
        """Restarts of workers, and sentences, since the last call."""
        before, self._restarts = self._restarts, self._pool.children.restarts if self._pool else 0
        notices = [self._notices.popleft() for _ in range(len(self._notices))]
        return {"restarts": self._restarts - before, "notices": notices}

    async def _look_after_workers(self) -> None:
        while self._error is None:
            self._serve()
            await asyncio.sleep(LOOK_SECONDS)

    def _serve(self) -> None:
        """Receive what the workers send, and answer requests."""
        if self._pool is None or self._error is not None:
            return
        try:
            self._flow_control.limit = len(self._requests)
            self._pool.wait(0.0)
            while self._pool.rounds_ready and self._requests:
                # Before the slot of this round is free, which must not be filled for the same request.
                self._flow_control.limit = len(self._requests) - 1
                # Each row is read before the next one is taken: then its slot may be filled again.
                rows = self._pool.take(self._setup.config.workers.envs_per_worker)
                packed = [self._codec.encode(row) for row in rows]  # an error here is this request's answer, too
                self._requests.popleft().set_result(packed)
        except Exception as error:
            self._error = error
            asyncio.get_running_loop().remove_reader(self._pool.children)
            for request in self._requests:
                request.set_exception(error)
