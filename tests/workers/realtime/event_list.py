"""The three rules once more: a slow simulation with an event list that is searched, and the rules written out in it."""

import numpy as np

from tests.workers.realtime.simulation import Times


def slow_simulation(rule: str, inference_times: Times, frame: float) -> list[float]:
    """The moments of all actions, in order, until the first process has no inference time left."""
    processes = len(inference_times)
    left = [list(row) for row in inference_times]
    seen: list[float] = []
    starts: list[float] = []
    actions: list[float] = []
    acted: list[float] = []
    events = [(0.0, "may start", process, 0.0) for process in range(processes)]

    def spacing(time: float) -> float:
        return max(time / processes, frame)

    while True:
        event = min(events, key=lambda entry: entry[0])
        events.remove(event)
        now, what, process, started = event
        if what == "may start":
            start = now
            if rule == "max" and starts:
                start = max(now, max(starts) + spacing(max(seen, default=0.0)))
            if rule == "mean" and seen:
                mean = float(np.mean(seen))
                reserve = min(max(seen), mean + (mean * spacing(mean)) ** 0.5)
                start = max(now, now + processes * spacing(mean) - reserve)
            starts.append(start)
            events.append((start + left[process].pop(0), "finished", process, start))
        elif what == "finished":
            seen.append(now - started)
            action = now
            if rule == "max":
                action = max(now, started + max(seen))
            if rule == "mean" and actions:
                action = max(now, max(actions) + spacing(float(np.mean(seen))))
            actions.append(action)
            events.append((action, "acts", process, started))
        else:
            acted.append(now)
            if not left[process]:
                return acted
            events.append((now, "may start", process, 0.0))
