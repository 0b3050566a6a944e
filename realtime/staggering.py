"""When each of N inference processes acts and starts again, so that the actions come at even intervals.

The rules follow Riemer et al., "Enabling Realtime Reinforcement Learning at Scale with Staggered Asynchronous
Inference" (arXiv 2412.14355). Here are no clock, no processes and no waiting: the caller passes the time of every
event, in any unit, and waits until the times that it gets back.

The terms, for N processes that share the work of one game:

* τ, an inference time: from the start of an inference, when the observation is read, to its end.
* τ_max, the longest inference time that any of the processes has seen; τ̄, the mean of all inference times.
* The spacing S: the interval that a rule keeps between two actions. It is max(τ_max / N, frame) by rule `max`,
  max(τ̄ / N, frame) by rule `mean`, and 0 by rule `none`.
* A frame: the shortest interval that is of use. A game that takes one action a frame overwrites further ones.
* A slot: a moment that a process reserves, at least S after each slot that was reserved before. By rule `max`,
  inferences start in slots; by rule `mean`, actions take effect in slots.
"""

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

State = NDArray[np.float64]  # [N, 4]: for each process its longest inference time, their sum, their number, its slot
LONGEST, SUM, COUNT, SLOT = range(4)


def new_state(processes: int) -> State:
    """The state [N, 4] of processes that have done nothing yet."""
    state = np.zeros((processes, 4))
    state[:, SLOT] = -math.inf
    return state


def needed_processes(inference_time: float, frame: float) -> int:
    """N*, the processes that are needed for an action in every frame: ⌈inference_time / frame⌉.

    With the longest inference time, this is N* by rule `max`; with the mean, by rule `mean`.
    """
    return max(1, math.ceil(inference_time / frame * (1 - 1e-12)))  # 5 × 0.1 / 0.1 are five, whatever is rounded


class Staggering(Protocol):
    """A rule. A process calls `next_start`, starts then, calls `finished`, acts then, calls `next_start`, and so on.

    It passes the times that it got back, not those at which it woke up. So what it sleeps too long counts as inference
    time, and does not add up. A process that takes the place of a dead one begins with `next_start`, too.
    """

    def finished(self, process: int, started: float, now: float) -> float:
        """Note that an inference took from `started` until `now`. Return when its action takes effect."""

    def next_start(self, process: int, now: float) -> float:
        """Return when a process starts its next inference if its action takes effect at `now`, or if it is new."""


class _SharedTimes:
    """What the processes know of each other.

    Several processes may share the state without a lock, since each writes only its own row, and all else is a maximum
    or a sum over the rows. Two that see a new maximum at once lose neither. Two that reserve a slot at the very same
    moment may get the same one: that changes one interval, and in the next cycle the intervals are even again.
    """

    def __init__(self, state: State, frame: float = 0.0) -> None:
        self._state = state
        self._frame = frame

    @property
    def longest(self) -> float:
        """τ_max; 0 before the end of the first inference."""
        return float(self._state[:, LONGEST].max())

    @property
    def mean(self) -> float:
        """τ̄; 0 before the end of the first inference."""
        return float(self._state[:, SUM].sum() / max(1.0, self._state[:, COUNT].sum()))

    def _note(self, process: int, inference_time: float) -> None:
        row = self._state[process]
        row[LONGEST] = max(row[LONGEST], inference_time)
        row[SUM] += inference_time
        row[COUNT] += 1

    def _spacing(self, time: float) -> float:
        """S, where `time` is τ_max or τ̄."""
        return max(time / len(self._state), self._frame)

    def _reserve(self, process: int, earliest: float, spacing: float) -> float:
        """Reserve the first moment from `earliest` on that is `spacing` after all other slots."""
        slot = max(earliest, float(self._state[:, SLOT].max()) + spacing)
        self._state[process, SLOT] = slot
        return slot


class NoStaggering(_SharedTimes):
    """Rule `none`: each process acts as soon as it can, and starts again at once."""

    def finished(self, process: int, started: float, now: float) -> float:
        self._note(process, now - started)
        return now

    def next_start(self, process: int, now: float) -> float:
        return now


class MaxStaggering(_SharedTimes):
    """Rule `max`, as Algorithm 1: inferences start every S, and each action takes effect τ_max after its start.

    All actions have the same age and the order of their observations. Once τ_max has been seen, all intervals are
    exactly S. If σ_k is the k-th start, then σ_{k+N} = max(σ_k + τ_max, σ_{k+N−1} + S). Starts are at least S apart,
    so the second term is at least σ_k + N·S, which is at least the first.

    A process that is late starts its next inference late, and the others keep their distance from this slot: its delay
    is passed on to them.
    """

    def finished(self, process: int, started: float, now: float) -> float:
        self._note(process, now - started)
        return max(now, started + self.longest)

    def next_start(self, process: int, now: float) -> float:
        return self._reserve(process, now, self._spacing(self.longest))


class MeanStaggering(_SharedTimes):
    """Rule `mean`, for Algorithm 2: an action takes effect in the first free slot, and its process starts again then.

    No action waits for the longest inference time, so there are more of them: N / τ̄ in a unit of time, less the share
    of slots in which no process has finished. Such slots make the intervals uneven, and there are fewer with more
    processes. Actions may take effect in another order than their observations.

    With more processes than N*, the cycle N·S is longer than τ̄. Then processes start later, so that their actions are
    not older than necessary: they leave τ̄ + √(τ̄·S), but no more than τ_max, until the slot that they expect. The number
    of finished processes varies by about √(τ̄ / S), so this reserve lets few slots pass without an action.
    """

    def finished(self, process: int, started: float, now: float) -> float:
        self._note(process, now - started)
        return self._reserve(process, now, self._spacing(self.mean))

    def next_start(self, process: int, now: float) -> float:
        mean = self.mean
        if mean == 0:
            return now
        spacing = self._spacing(mean)
        return now + max(0.0, len(self._state) * spacing - min(self.longest, mean + math.sqrt(mean * spacing)))


RULES: dict[str, type[NoStaggering | MaxStaggering | MeanStaggering]] = {
    "none": NoStaggering,
    "max": MaxStaggering,
    "mean": MeanStaggering,
}
