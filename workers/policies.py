"""The policy that chooses a worker's actions: a copy of the network in its process, or the inference server."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Protocol

import torch

from agents.acting import Actor, ActorState, Decision
from processes.messages import Kind, receive, send
from replay.unroll_layout import UnrollLayout
from workers.inference.rows import InferenceRows
from workers.policy_inputs import PolicyInputs


class ActingPolicy(Protocol):
    """Chooses actions for groups of environments, one group at a time.

    From `request` until `result`, the group's inputs must not change. A result is valid until the group's next request.
    """

    groups: Sequence[slice]
    inputs: PolicyInputs

    def refresh(self) -> None:
        """Load the newest weights; called before each unroll."""

    def request(self, group: int) -> None:
        """Ask for the actions of one group."""

    def result(self, group: int) -> tuple[Decision, int]:
        """Wait for the requested actions; also return the version of the weights that chose them."""

    def value_of(self, environment: int) -> float:
        """The value estimate of what an environment shows now, where a time limit has cut the episode off."""


class LocalPolicy:
    """Chooses actions with a copy of the network, for all environments at once."""

    def __init__(
        self, actor: Actor, layout: UnrollLayout, environments: int, load_newest: Callable[[], int] = lambda: 0
    ) -> None:
        self.groups: Sequence[slice] = (slice(0, environments),)
        self.inputs = PolicyInputs.at_start(environments, layout)
        self._no_uniforms = torch.zeros(1, *layout.action_shape, dtype=torch.float64)  # for `value_of`
        self._actor = actor
        self._load_newest = load_newest
        self._version = 0

    def refresh(self) -> None:
        self._version = self._load_newest()

    def request(self, group: int) -> None:
        """Nothing to do: `result` computes the actions."""

    def result(self, group: int) -> tuple[Decision, int]:
        return self._act(self.inputs.select(self.groups[group])), self._version

    def value_of(self, environment: int) -> float:
        inputs = self.inputs.select(slice(environment, environment + 1))
        return float(self._act(replace(inputs, uniforms=self._no_uniforms)).values)

    def _act(self, inputs: PolicyInputs) -> Decision:
        return self._actor.act(inputs.pictures, inputs.state, inputs.uniforms, inputs.vectors)


class RemotePolicy:
    """Sends requests to the inference server, so that the worker can step one group while it waits for the other.

    Each worker process has its own pipe, so a replacement never receives results that the process before it requested.
    """

    def __init__(self, rows: InferenceRows, worker: int, server: Connection) -> None:
        *halves, self._extra_row = rows.groups
        self.groups: Sequence[slice] = halves
        self._server = server
        requests = rows.requests[worker]
        requests[:] = 0
        fields = rows.request_layout.arrays(requests)
        state = ActorState(
            *(torch.from_numpy(fields[name]) for name in ("lstm_state", "previous_action", "previous_reward"))
        )
        for e in range(rows.environments):
            state.restart(e)
        vectors, uniforms = (torch.from_numpy(fields[name]) for name in ("vector", "uniform"))
        self._all_inputs = PolicyInputs(fields["observation"], vectors, state, uniforms)
        self.inputs = self._all_inputs.select(slice(0, rows.environments))
        results = rows.result_layout.arrays(rows.results[worker])
        names = ("action", "logits", "value", "features", "lstm_state")
        tensors = [torch.from_numpy(results[name]) for name in names]
        self._decisions = [Decision(*(tensor[group] for tensor in tensors)) for group in rows.groups]
        self._versions = [results["weight_version"][group] for group in rows.groups]
        self._arrived: set[int] = set()  # groups whose result arrived during the wait for another group

    def refresh(self) -> None:
        """Nothing to do: the server loads the newest weights before each batch."""

    def request(self, group: int) -> None:
        send(self._server, Kind.ACTION_REQUEST, group)

    def result(self, group: int) -> tuple[Decision, int]:
        while group not in self._arrived:
            self._arrived.add(receive(self._server).index)
        self._arrived.remove(group)
        return self._decisions[group], int(self._versions[group][0])

    def value_of(self, environment: int) -> float:
        own = self.inputs.select(slice(environment, environment + 1))
        extra = self._all_inputs.select(self._extra_row)
        extra.observations[:], extra.vectors[:] = own.observations, own.vectors
        for name, value in vars(own.state).items():
            getattr(extra.state, name)[:] = value
        group = len(self.groups)
        self.request(group)
        return float(self.result(group)[0].values)
