"""Requests to the inference server and its results, in memory shared by the server and all workers."""

from collections.abc import Sequence
from dataclasses import dataclass

from replay.row_layout import Declared, RowLayout, Rows
from replay.unroll_layout import UnrollLayout
from workers.memory.shared_array import SharedArray
from workers.policy_inputs import observation_shape


@dataclass(frozen=True)
class RequestLayout(RowLayout):
    """What the policy needs to choose an action for one environment."""

    layout: UnrollLayout

    @property
    def declared(self) -> Sequence[Declared]:
        return [
            ("observation", observation_shape(self.layout), "uint8"),
            ("vector", (self.layout.vector_length,), "float32"),
            ("uniform", self.layout.action_shape, "float64"),
            ("lstm_state", (2, self.layout.lstm_size), "float32"),
            ("previous_action", self.layout.action_shape, self.layout.action_dtype),
            ("previous_reward", (), "float32"),
        ]


@dataclass(frozen=True)
class ResultLayout(RowLayout):
    """What the policy computed for one environment, and the version of its weights."""

    layout: UnrollLayout

    @property
    def declared(self) -> Sequence[Declared]:
        return [
            ("action", self.layout.action_shape, "float32" if self.layout.action_kind == "gaussian" else "int64"),
            ("logits", (self.layout.action_count,), "float32"),
            ("value", (), "float32"),
            ("features", (self.layout.feature_size,), "float16"),
            ("lstm_state", (2, self.layout.lstm_size), "float32"),
            ("weight_version", (), "int64"),
        ]


class InferenceRows:
    """Shared rows `[worker, environment + 1, nbytes]` of requests and of results.

    A worker's environments form two groups, so that it can step one while it waits for the other; a single environment
    forms one group. The extra row is a group of its own, for the value of a state that a time limit cut off. A group's
    rows belong to the worker until it sends a request, then to the server until it sends the result.
    """

    def __init__(self, layout: UnrollLayout, workers: int, environments: int) -> None:
        self.layout = layout
        self.workers = workers
        self.environments = environments
        self.request_layout, self.result_layout = RequestLayout(layout), ResultLayout(layout)
        self._requests = SharedArray((workers, environments + 1, self.request_layout.nbytes))
        self._results = SharedArray((workers, environments + 1, self.result_layout.nbytes))

    @property
    def requests(self) -> Rows:
        return self._requests.array

    @property
    def results(self) -> Rows:
        return self._results.array

    @property
    def groups(self) -> tuple[slice, ...]:
        """The groups of environments; the last one is the extra row."""
        count, half = self.environments, (self.environments + 1) // 2
        halves = (slice(0, half), slice(half, count)) if count > 1 else (slice(0, 1),)
        return (*halves, slice(count, count + 1))

    @property
    def largest_batch(self) -> int:
        """Rows in a batch with one group of each worker."""
        return self.workers * max(1, (self.environments + 1) // 2)

    def close(self) -> None:
        self._requests.close()
        self._results.close()
