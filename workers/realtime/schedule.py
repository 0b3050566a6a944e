"""When each of N inference processes starts, and when its action takes effect.

Here are no clock, no processes and no waiting: the caller passes the time of every event, and waits until the times
that it gets back.

The staggering rules let actions come at even intervals. They follow Riemer et al., "Enabling Realtime Reinforcement
Learning at Scale with Staggered Asynchronous Inference" (arXiv 2412.14355).

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


def needed_processes(inference_time: float, frame: float) -> int:
    """N*, the processes that are needed for an action in every frame: ⌈inference_time / frame⌉.

    With the longest inference time, this is N* by rule `max`; with the mean, by rule `mean`.
    """
    return max(1, math.ceil(inference_time / frame * (1 - 1e-12)))  # 5 × 0.1 / 0.1 are five, whatever is rounded


class Staggering:
    """Rule `none`: each process acts as soon as it can, and starts again at once. The other rules derive from it.

    `next_start` says when a process starts, `finished` when its action takes effect, then `next_start` again, and so
    on. The caller passes the times that it got back, not those at which it woke up. So what it sleeps too long counts
    as inference time, and does not add up. A process that takes the place of a dead one begins with `next_start`, too.
    """

    def __init__(self, processes: int, frame: float = 0.0) -> None:
        self._processes = processes
        self._frame = frame
        self.longest = 0.0  # τ_max
        self._sum, self._count = 0.0, 0  # of all inference times
        self._slot = -math.inf  # the latest one that was reserved

    @property
    def mean(self) -> float:
        """τ̄; 0 before the end of the first inference."""
        return self._sum / max(1, self._count)

    def finished(self, started: float, now: float) -> float:
        """Note that an inference took from `started` until `now`. Return when its action takes effect."""
        self.longest = max(self.longest, now - started)
        self._sum += now - started
        self._count += 1
        return now

    def next_start(self, now: float) -> float:
        """Return when a process starts its next inference if its action takes effect at `now`, or if it is new."""
        return now

    def _spacing(self, time: float) -> float:
        """S, where `time` is τ_max or τ̄."""
        return max(time / self._processes, self._frame)

    def _reserve(self, earliest: float, spacing: float) -> float:
        """Reserve the first moment from `earliest` on that is `spacing` after all other slots."""
        self._slot = max(earliest, self._slot + spacing)
        return self._slot


class MaxStaggering(Staggering):
    """Rule `max`, as Algorithm 1: inferences start every S, and each action takes effect τ_max after its start.

    All actions have the same age and the order of their observations. Once τ_max has been seen, all intervals are
    exactly S. If σ_k is the k-th start, then σ_{k+N} = max(σ_k + τ_max, σ_{k+N−1} + S). Starts are at least S apart,
    so the second term is at least σ_k + N·S, which is at least the first.

    A process that is late starts its next inference late, and the others keep their distance from this slot: its delay
    is passed on to them.
    """

    def finished(self, started: float, now: float) -> float:
        super().finished(started, now)
        return max(now, started + self.longest)

    def next_start(self, now: float) -> float:
        return self._reserve(now, self._spacing(self.longest))


class MeanStaggering(Staggering):
    """Rule `mean`, for Algorithm 2: an action takes effect in the first free slot, and its process starts again then.

    No action waits for the longest inference time, so there are more of them: N / τ̄ in a unit of time, less the share
    of slots in which no process has finished. Such slots make the intervals uneven, and there are fewer with more
    processes. Actions may take effect in another order than their observations.

    With more processes than N*, the cycle N·S is longer than τ̄. Then processes start later, so that their actions are
    not older than necessary: they leave τ̄ + √(τ̄·S), but no more than τ_max, until the slot that they expect. The number
    of finished processes varies by about √(τ̄ / S), so this reserve lets few slots pass without an action.
    """

    def finished(self, started: float, now: float) -> float:
        super().finished(started, now)
        return self._reserve(now, self._spacing(self.mean))

    def next_start(self, now: float) -> float:
        mean = self.mean
        if mean == 0:
            return now
        spacing = self._spacing(mean)
        return now + max(0.0, self._processes * spacing - min(self.longest, mean + math.sqrt(mean * spacing)))


RULES = {"none": Staggering, "max": MaxStaggering, "mean": MeanStaggering}
