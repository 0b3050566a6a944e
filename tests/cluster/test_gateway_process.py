"""The gateway's process is replaced when it is lost, and an unreachable cluster does not end the run."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster.cluster_actors import SILENCE_SECONDS, UNREACHABLE_SECONDS, GatewayProcess
from processes.messages import Kind
from processes.pool import FAILURES_IN_A_ROW, ChildPool, Ended, WorkersFailedError
from tests.cluster.fake_gateways import EchoGateway, FailingGateway, SilentGateway, UnreachableGateway
from tests.processes import spawned
from tests.workers.pools import Clock

pytestmark = pytest.mark.slow


class WatchedGateway:
    """A gateway process, and what was heard of it."""

    def __init__(self, make_gateway: Callable[[int], Any], clock: Clock) -> None:
        self.answered: list[int] = []
        self.said: list[str] = []
        self.starts = self.ends = 0
        self.children = ChildPool(self.said.append, silence=SILENCE_SECONDS, budget=10, clock=clock)
        self.process = GatewayProcess(make_gateway, self.children)

    def poll(self) -> None:
        for event in self.process.poll():
            if isinstance(event, Ended):
                self.ends += 1
            elif event.kind == Kind.HEARTBEAT:
                self.starts += 1
                self.process.send(Kind.ROUNDS_WANTED, self.starts)
            else:
                assert event.kind == Kind.NODE_FIGURES
                self.answered.append(event.index)

    def poll_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, (self.said, self.answered)
            self.poll()
            time.sleep(0.01)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(clock: Clock) -> Iterator[Callable[[Callable[[int], Any]], WatchedGateway]]:
    started: list[WatchedGateway] = []

    def start(make_gateway: Callable[[int], Any]) -> WatchedGateway:
        started.append(WatchedGateway(make_gateway, clock))
        return started[-1]

    yield start
    for each in started:
        each.process.close()
    assert not spawned()


Watch = Callable[[Callable[[int], Any]], WatchedGateway]


def test_a_killed_gateway_is_replaced_and_told_everything_again(watch: Watch) -> None:
    watched = watch(lambda starts: EchoGateway())
    watched.poll_until(lambda: watched.answered == [1])
    os.kill(watched.children.process_ids()[0], signal.SIGKILL)
    watched.poll_until(lambda: watched.answered == [1, 2])
    assert watched.said == ["the gateway to the cluster is replaced: it was killed by SIGKILL"]
    assert (watched.starts, watched.ends) == (2, 1)


def test_a_silent_gateway_is_replaced(watch: Watch, clock: Clock) -> None:
    watched = watch(lambda starts: EchoGateway() if starts else SilentGateway())
    watched.poll_until(lambda: watched.starts == 1)
    clock.now += SILENCE_SECONDS + 1
    watched.poll_until(lambda: watched.answered == [2])
    (said,) = watched.said
    assert said.startswith(
        f"the gateway to the cluster is replaced: it did not respond for {SILENCE_SECONDS:g} seconds"
    )
    assert " in run" in said, "the place where it hangs"


@pytest.mark.parametrize("worked", [True, False])
def test_only_gateways_that_fail_at_once_end_the_run(watch: Watch, clock: Clock, worked: bool) -> None:
    """Without nodes, no gateway ever delivers a round; a head that is restarted now and then must not end the run."""
    watched = watch(lambda starts: FailingGateway(worked))
    try:
        while watched.ends < 2 * FAILURES_IN_A_ROW:
            if not watched.children.process_ids():
                clock.now += SILENCE_SECONDS / 4  # more than any time between two starts
            watched.poll()
            time.sleep(0.01)
    except WorkersFailedError:
        assert not worked
    else:
        assert worked
    assert watched.said and all("the gateway to the cluster is replaced" in text for text in watched.said)


def test_a_cluster_that_cannot_be_reached_is_tried_again_and_each_reason_is_said(watch: Watch, clock: Clock) -> None:
    why = ["nobody is there", "nobody is there", "another version of Ray"]
    watched = watch(lambda starts: UnreachableGateway(why[starts]) if starts < 3 else EchoGateway())
    for ends in (1, 2, 3):
        watched.poll_until(lambda ends=ends: watched.ends == ends)  # type: ignore[misc]
        watched.poll()
        assert not watched.children.process_ids(), "it waits"
        clock.now += UNREACHABLE_SECONDS + 1
    watched.poll_until(lambda: watched.answered == [1])
    assert [text.partition("; ")[0] for text in watched.said] == [
        "the cluster cannot be reached (ConnectionError: nobody is there)",
        "the cluster cannot be reached (ConnectionError: another version of Ray)",
        "the cluster answers again",
    ]
