"""The connection of all learners of a run, on torch.distributed: gradients and messages."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but not in its list of names

from agents.gradients import Gradients, Peers, TrainedNetwork
from agents.network import ActorCritic
from learners.rank import FOLDER, HERE, SILENCE_FACTOR, STORE, LearnerRank
from machine.device import choose_device
from option_flags import Config
from options.rules import UsageError
from processes.pool import RunFailedError


class LearnerLostError(RunFailedError):
    """Another learner has ended, or does not respond. The launcher starts all of them again."""

    exit_code = 3


class OneLearner(Peers):
    """A run with one learner."""

    rank = LearnerRank()
    lost = False  # whether nothing is done together any more
    another_lost = False  # whether that is because another learner has ended

    def from_first(self, value: Any) -> Any:
        return value

    def of_all(self, value: Any) -> list[Any]:
        return [value]

    @contextmanager
    def guarded(self) -> Iterator[None]:
        yield

    def tell_launcher(self, folder: Path) -> None:
        """Tell the launcher the run's folder. This learner has none."""

    def close(self) -> None:
        """Nothing is connected."""


class LearnerGroup(OneLearner):
    """Connects this learner with the others; returns when all are connected.

    Gradients take the way of the device (NCCL between GPUs, else gloo). Messages always take gloo, so that a learner
    that waits for the others can do something else meanwhile.
    """

    def __init__(self, rank: LearnerRank, timeout: float) -> None:
        """A learner that does not take part in what all do together for `timeout` seconds is lost."""
        self.rank = rank
        self.size = rank.size
        self.timeout = timeout
        self._gradients: dist.ProcessGroup | None = None
        with self.guarded():
            self._store = TCPStore(HERE, int(os.environ[STORE])) if STORE in os.environ else None
            patience = timedelta(seconds=timeout)
            dist.init_process_group("gloo", store=self._store, rank=rank.index, world_size=rank.size, timeout=patience)

    def averaging(self, network: ActorCritic) -> TrainedNetwork:
        if next(network.parameters()).device.type == "cuda":
            self._gradients = dist.new_group(backend="nccl", timeout=timedelta(seconds=self.timeout))
        return SharedGradients(network, self._gradients)

    def rows_of_all(self, rows: torch.Tensor) -> torch.Tensor:
        rows = rows.contiguous()
        parts = [torch.empty_like(rows) for _ in range(self.size)]
        dist.all_gather(parts, rows, group=self._gradients if rows.is_cuda else None)
        return torch.cat(parts)

    def from_first(self, value: Any) -> Any:
        """The value of the first learner; after another one was lost, that of this learner."""
        if self.lost:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def of_all(self, value: Any) -> list[Any]:
        """The values of all learners, in their order."""
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def send(self, message: torch.Tensor) -> "Exchange":
        """Begin to exchange `message [K]` with all learners, each of which sends as many numbers."""
        return Exchange(message, self.size, self.timeout)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Errors of the connection become a LearnerLostError. After any error, nothing more is done together."""
        try:
            yield
        except BaseException as error:
            self.lost = True
            is_disconnected = isinstance(error, RuntimeError) and is_connection_error(error)
            self.another_lost = is_disconnected or isinstance(error, LearnerLostError)
            if not is_disconnected:
                raise
            raise LearnerLostError("another learner has ended, or does not respond") from error

    def tell_launcher(self, folder: Path) -> None:
        if self._store is not None:  # torchrun has no use for it
            self._store.set(FOLDER, str(folder))

    def close(self) -> None:
        # gloo needs no end, and would wait for learners that have ended already.
        if self._gradients is not None and not self.lost:
            dist.destroy_process_group()


class Exchange:
    """One exchange of messages that is under way."""

    def __init__(self, message: torch.Tensor, size: int, timeout: float) -> None:
        self._parts = [torch.empty_like(message) for _ in range(size)]
        self._message = message  # must live until the exchange is over
        self._work = dist.all_gather(self._parts, message, async_op=True)
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout

    def messages(self) -> list[torch.Tensor] | None:
        """The messages of all learners, in their order; None while some have not sent theirs."""
        if not self._work.is_completed():
            if time.monotonic() > self._deadline:
                raise LearnerLostError(f"another learner has not responded for {self._timeout:g} seconds")
            return None
        self._work.wait()  # raises what went wrong
        return self._parts


def is_connection_error(error: RuntimeError) -> bool:
    """Whether torch.distributed raised it because another process ended or is silent. gloo has no class of its own."""
    text = str(error)
    return isinstance(error, dist.DistError) or "gloo" in text or "NCCL" in text or "Connection closed" in text


def connect(rank: LearnerRank | None, config: Config) -> OneLearner:
    """The connection with the other learners; a run with one learner has none."""
    if rank is None or rank.size == 1:
        return OneLearner()
    return LearnerGroup(rank, SILENCE_FACTOR * config.workers.worker_timeout)


def agreed(config: Config, learners: OneLearner) -> Config:
    """The configuration of the first learner, after a check that all have the same one, and the same kind of device."""
    own = {**config.flags(), "device": choose_device(config.run.device).type}
    of_all = learners.of_all(own)
    learners.of_all(None)  # nobody ends before all have these flags
    first = of_all[0]
    for rank, other in enumerate(of_all):
        for name, value in first.items():
            if other.get(name) != value and name != "seed":
                raise UsageError(
                    f"--{name} is {value} for learner 0 and {other.get(name)} for learner {rank}; the same for all "
                    "would be right."
                )
    return config.replace_flags(seed=first["seed"])


class SharedGradients(TrainedNetwork):
    """A network with the weights of the first learner, whose gradients are means over all learners."""

    def __init__(self, network: ActorCritic, group: dist.ProcessGroup | None) -> None:
        super().__init__(network)
        self._group = group
        for values in network.state_dict().values():
            dist.broadcast(values, src=0, group=group)

    def backward(self, loss: torch.Tensor) -> None:
        super().backward(loss)
        self.take([parameter.grad for parameter in self.parameters])

    def take(self, gradients: Gradients) -> None:
        # A torso of the user's own may have weights that no output depends on.
        pairs = zip(self.parameters, gradients, strict=True)
        own = [torch.zeros_like(weights) if each is None else each for weights, each in pairs]
        mean = torch.cat([each.flatten() for each in own])  # one message is faster than many
        dist.all_reduce(mean, group=self._group)
        mean /= dist.get_world_size()
        for each, part in zip(own, torch.split(mean, [each.numel() for each in own]), strict=True):
            each.copy_(part.view_as(each))  # in place: the optimizer needs gradients as they lie in memory
        super().take(own)
