"""A call of an actor while the network to its node is cut, without Ray."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("ray")

from ray.exceptions import ActorUnavailableError, GetTimeoutError

from cluster.nodes import ANSWER_SECONDS, call_actor


class Counter:
    """In place of an actor: its method counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    @property
    def count(self) -> "Counter":
        return self

    def remote(self, step: int) -> Callable[[], int]:
        def answer() -> int:
            self.calls += step
            return self.calls

        return answer


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds for which the network is still cut; time passes in sleeps only."""
    cut, now = [0.0], [100.0]

    def get(answer: Callable[[], int], timeout: float) -> Any:
        assert timeout <= ANSWER_SECONDS
        if now[0] < 100.0 + cut[0]:
            raise ActorUnavailableError("the connection was reset", None)
        return answer()

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("cluster.nodes.ray.get", get)
    monkeypatch.setattr("cluster.nodes.time.monotonic", lambda: now[0])
    monkeypatch.setattr("cluster.nodes.time.sleep", sleep)
    return cut


@pytest.mark.parametrize("seconds", [0.0, 10.0, ANSWER_SECONDS - 1])
def test_a_call_outlasts_a_short_cut(cut: list[float], seconds: float) -> None:
    cut[0] = seconds
    assert call_actor(Counter(), "count", 3) == 3


def test_a_long_cut_is_no_answer(cut: list[float]) -> None:
    cut[0] = 10 * ANSWER_SECONDS
    with pytest.raises(GetTimeoutError):
        call_actor(Counter(), "count", 3)
