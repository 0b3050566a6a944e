"""Calls of actors while the network to their node is cut, without Ray."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

import ray
from ray.exceptions import ActorUnavailableError

from sweeps.cluster_places import ANSWER_SECONDS, NodeProgram, ProgramLostError


class Handle:
    """Calls the methods of an object as those of an actor."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=getattr(self.inside, name))


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes in sleeps only."""
    now = [100.0]

    def get(answer: Any, timeout: float) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr("sweeps.cluster_places.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return now


class Adder:
    """It cannot be reached before the time `until`."""

    def __init__(self, now: list[float], until: float) -> None:
        self._now, self._until = now, until

    def call(self, method: str, a: int, b: int) -> Any:
        assert method == "add"
        if self._now[0] < self._until:
            return ActorUnavailableError("the connection was reset", None)
        return a + b


@pytest.mark.parametrize("seconds", [0.0, 10.0, ANSWER_SECONDS - 1])
def test_a_call_outlasts_a_short_cut(now: list[float], seconds: float) -> None:
    assert NodeProgram(Handle(Adder(now, now[0] + seconds)), "a").call("add", 1, 2) == 3


def test_a_long_cut_is_no_answer(now: list[float]) -> None:
    with pytest.raises(ProgramLostError, match=f"^its node a did not answer for {ANSWER_SECONDS:g} seconds$"):
        NodeProgram(Handle(Adder(now, now[0] + 10 * ANSWER_SECONDS)), "a").call("add", 1, 2)
