"""The inference processes of one worker: asks them for decisions, and replaces those that die or do not answer."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch

from agents.acting import Decision
from processes.messages import Kind
from processes.pool import ChildPool, Ended, Member
from workers.inference.rows import InferenceRows
from workers.policy_inputs import PolicyInputs
from workers.realtime.inference_process import InferenceProcess


class Joined(NamedTuple):
    """A process is ready for requests."""

    process: int


class Answered(NamedTuple):
    """A process has made its decision."""

    process: int


class Lost(NamedTuple):
    """A process has ended. Another one takes its place."""

    process: int


class InferencePool:
    """Keeps N processes running. For a wait for several things, it is ready when `receive` would find one."""

    def __init__(self, children: ChildPool, make: Callable[[int], InferenceProcess], rows: InferenceRows) -> None:
        self._children = children
        self._games = slice(0, rows.environments)
        self._requests = [rows.request_layout.arrays(row[self._games]) for row in rows.requests]
        results = [rows.result_layout.arrays(row[self._games]) for row in rows.results]
        names = ("action", "logits", "value", "features", "lstm_state")
        self._decisions = [Decision(*(torch.from_numpy(result[name]) for name in names)) for result in results]
        self._versions = [result["weight_version"] for result in results]

        def make_process(index: int, starts: int) -> InferenceProcess:
            return make(index)

        # The first answer of a process says that it is ready.
        self._members = [
            Member(f"inference process {index}", partial(make_process, index), index, owes_at_start=1)
            for index in range(len(results))
        ]
        self._ready: set[int] = set()
        self._cpu = 0.0  # seconds that were not taken yet
        self._cpu_of = [0.0] * len(results)  # of each running process, at its latest answer
        for member in self._members:
            children.add(member)

    @property
    def all_ready(self) -> bool:
        return len(self._ready) == len(self._members)

    def fileno(self) -> int:
        return self._children.fileno()

    def request(self, process: int, inputs: PolicyInputs) -> None:
        """Ask a process for a decision. If it has just died, `receive` will say so."""
        request = self._requests[process]
        request["observation"][:] = inputs.observations
        request["uniform"][:] = inputs.uniforms
        request["lstm_state"][:] = inputs.state.lstm_state
        request["previous_action"][:] = inputs.state.previous_actions
        request["previous_reward"][:] = inputs.state.previous_rewards
        self._children.request(self._members[process], Kind.ACTION_REQUEST)

    def result(self, process: int) -> tuple[Decision, int]:
        """The decision that a process has made, in memory that its next one overwrites, and the weights' version."""
        return self._decisions[process], int(self._versions[process][0])

    def take_cpu_seconds(self) -> float:
        """CPU time of the processes since the last call, as far as they have told."""
        seconds, self._cpu = self._cpu, 0.0
        return seconds

    def receive(self) -> Iterator[Joined | Answered | Lost]:
        """What has happened. Call it once a second at least: it also replaces processes that do not answer.

        WorkersFailedError if one fails again and again.
        """
        for member, event in self._children.poll(0.0):
            if isinstance(event, Ended):
                self._ready.discard(member.index)
                self._children.replace(member, event)
                yield Lost(member.index)
                continue
            member.owes -= 1
            if event.kind == Kind.HEARTBEAT:
                self._ready.add(member.index)
                self._cpu_of[member.index] = 0.0
                for other in self._members:  # where many start at once, the last ones take long
                    if other.index not in self._ready:
                        other.silent_since = member.silent_since
                yield Joined(member.index)
            else:
                member.history.failures = 0
                self._cpu += event.payload - self._cpu_of[member.index]
                self._cpu_of[member.index] = event.payload
                yield Answered(member.index)

    def close(self) -> None:
        """End all processes."""
        self._children.close()
