"""What a staggering rule does with given inference times: a simulation from event to event, without a clock."""

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workers.realtime.schedule import RULES

Times = NDArray[np.float64]
_FINISH, _ACT = range(2)


class Actions(NamedTuple):
    """Actions in the order in which they take effect."""

    times: Times  # [A]: when each takes effect
    ages: Times  # [A]: how old its observation is then


class Timing(NamedTuple):
    """How regular actions are. Times have the unit of the inference times; the rates are per unit of time."""

    rate: float  # actions
    used_rate: float  # frames that get a new action; of several actions in one frame, only the last has an effect
    interval_mean: float
    interval_deviation: float  # standard deviation
    interval_max: float
    age_mean: float
    missed: float  # share of the frames without a new action


def simulate(rule: str, inference_times: Times, frame: float = 0.0) -> Actions:
    """Let N processes act by this rule, all of them ready at time 0, until the first has used its inference times.

    Args:
        rule: a name in RULES.
        inference_times: [N, K], the times of each process's K inferences.
        frame: the shortest interval that is of use; 0 if every interval is.
    """
    processes, count = inference_times.shape
    staggering = RULES[rule](processes, frame)
    started, done = np.zeros(processes), np.zeros(processes, dtype=int)
    events: list[tuple[float, int, int, int]] = []  # time, number, kind, process; of two at once, the older comes first
    times, ages = [], []
    number = 0

    def add(time: float, kind: int, process: int) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (time, number, kind, process))

    def start(process: int, time: float) -> None:
        started[process] = time
        add(time + inference_times[process, done[process]], _FINISH, process)

    for process in range(processes):
        start(process, staggering.next_start(0.0))
    while True:
        now, _, kind, process = heapq.heappop(events)
        if kind == _FINISH:
            add(staggering.finished(started[process], now), _ACT, process)
            continue
        times.append(now)
        ages.append(now - started[process])
        done[process] += 1
        if done[process] == count:
            return Actions(np.array(times), np.array(ages))
        start(process, staggering.next_start(now))


def measure(actions: Actions, frame: float, since: float = 0.0) -> Timing:
    """Measure the actions after the time `since`. Raise ValueError if there are fewer than two.

    The first of these actions is in the middle of a frame.
    """
    kept = actions.times >= since
    times = actions.times[kept]
    if len(times) < 2:
        raise ValueError(f"{len(times)} actions have no intervals")
    intervals = np.diff(times)
    duration = times[-1] - times[0]
    frames_of_actions = np.floor((times - times[0]) / frame + 0.5)
    used = len(np.unique(frames_of_actions))
    frames = frames_of_actions[-1] + 1
    return Timing(
        rate=len(intervals) / duration if duration else np.inf,
        used_rate=used / frames / frame,
        interval_mean=float(intervals.mean()),
        interval_deviation=float(intervals.std()),
        interval_max=float(intervals.max()),
        age_mean=float(actions.ages[kept].mean()),
        missed=float(1 - used / frames),
    )
