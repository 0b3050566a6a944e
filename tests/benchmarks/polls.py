"""How long the learner takes to look for messages of its workers, none of which has sent one.

`python -m tests.benchmarks.polls 16 64` starts 16 idle worker processes, and then 64.
"""

import statistics
import sys
import time
from multiprocessing.connection import Connection

from processes.pool import ChildPool, Member

TURNS, POLLS = 20, 100
START_SECONDS = 5.0  # after the constructor, until all processes wait for a message


class IdleWorker:
    def run(self, connection: Connection) -> None:
        connection.recv_bytes()  # until the pipe is closed


def seconds_of_poll(workers: int) -> float:
    """The median of some turns."""
    children = ChildPool(print, silence=600.0, budget=0)
    for index in range(workers):
        children.add(Member(f"worker {index}", lambda starts: IdleWorker(), index))
    time.sleep(START_SECONDS + workers / 3)
    turns = []
    for _ in range(TURNS):
        begun = time.perf_counter()
        for _ in range(POLLS):
            children.poll(0.0)
        turns.append((time.perf_counter() - begun) / POLLS)
    children.close()
    return statistics.median(turns)


def main() -> None:
    for workers in map(int, sys.argv[1:] or ["16", "64"]):
        print(f"{workers} workers: {1000 * seconds_of_poll(workers):.4f} ms", flush=True)


if __name__ == "__main__":
    main()
