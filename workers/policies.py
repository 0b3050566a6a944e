"""The policy that chooses a worker's actions: a copy of the network in its process, or the inference server."""

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from agents.acting import Actor, Decision
from processes.messages import Kind, receive, send
from replay.unroll_layout import UnrollLayout
from workers.policy_inputs import InferenceRows, PolicyInputs


class ActingPolicy:
    """Chooses actions for groups of environments, one group at a time.

    From `request` until `result`, the group's inputs must not change. A result is valid until the group's next request.
    """

    groups: Sequence[slice]
    inputs: PolicyInputs

    def refresh(self) -> None:
        """Load the newest weights; called before each unroll. An inference server does so before each batch."""

    def request(self, group: int) -> None:
        """Ask for the actions of one group. With a network of its own, `result` computes them."""

    def result(self, group: int) -> tuple[Decision, int]:
        """Wait for the requested actions; also return the version of the weights that chose them."""
        raise NotImplementedError

    def value_of(self, environment: int) -> float:
        """The value estimate of what an environment shows now, where a time limit has cut the episode off."""
        raise NotImplementedError


class LocalPolicy(ActingPolicy):
    """Chooses actions with a copy of the network, for all environments at once."""

    def __init__(
        self, actor: Actor, layout: UnrollLayout, environments: int, load_newest: Callable[[], int] = lambda: 0
    ) -> None:
        self.groups = (slice(0, environments),)
        self.inputs = PolicyInputs.at_start(environments, layout)
        self._actor = actor
        self._load_newest = load_newest
        self._version = 0

    def refresh(self) -> None:
        self._version = self._load_newest()

    def result(self, group: int) -> tuple[Decision, int]:
        return self._act(self.inputs.select(self.groups[group])), self._version

    def value_of(self, environment: int) -> float:
        return float(self._act(self.inputs.select(slice(environment, environment + 1))).values)

    def _act(self, inputs: PolicyInputs) -> Decision:
        return self._actor.act(inputs.pictures, inputs.state, inputs.uniforms, inputs.vectors)


class RemotePolicy(ActingPolicy):
    """Sends requests to the inference server, so that the worker can step one group while it waits for the other.

    A worker's processes share a pipe, one after the other. Each numbers its groups anew, so that it never takes a
    result that the process before it requested.
    """

    def __init__(self, rows: InferenceRows, worker: int, server: Connection, restart_index: int = 0) -> None:
        *halves, self._extra_row = rows.groups
        self.groups = halves
        self._server = server
        self._first = restart_index * len(rows.groups)  # the number of group 0 in messages of this process
        rows.requests.array[worker] = 0
        self._all_inputs = rows.inputs(worker)
        for e in range(rows.environments):
            self._all_inputs.state.restart(e)
        self.inputs = self._all_inputs.select(slice(0, rows.environments))
        decision, versions = rows.decisions(worker)
        self._decisions = [Decision(*(part[group] for part in decision)) for group in rows.groups]
        self._versions = [versions[group] for group in rows.groups]
        self._arrived: set[int] = set()  # numbers of groups whose result arrived during the wait for another group

    def request(self, group: int) -> None:
        with suppress(BrokenPipeError):  # `result` notices it
            send(self._server, Kind.ACTION_REQUEST, self._first + group)

    def result(self, group: int) -> tuple[Decision, int]:
        while self._first + group not in self._arrived:
            try:
                self._arrived.add(receive(self._server).index)
            except (EOFError, ConnectionResetError):
                signal.pause()  # the server has ended, and the learner ends this process with it
                raise
        self._arrived.remove(self._first + group)
        return self._decisions[group], int(self._versions[group][0])

    def value_of(self, environment: int) -> float:
        own = self.inputs.select(slice(environment, environment + 1))
        self._all_inputs.select(self._extra_row).copy_from(own)
        group = len(self.groups)
        self.request(group)
        return float(self.result(group)[0].values)
