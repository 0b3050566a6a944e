"""The link to a node, with a stand-in for Ray: the network is cut, weights travel, players are lost."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError

from cluster import node_link
from cluster.node_link import NodeLink
from options.rules import UsageError
from processes.messages import Kind

CUT = ActorUnavailableError("the connection was reset", None)
SECOND = 0.02  # of the link's times


class Node:
    """In place of the actor and of what all players have in common.

    Each call of `next_round` and `load_weights` waits until the test answers it; each look finds newer weights.
    """

    def __init__(self, *problems: str) -> None:
        """What is wrong with the node at each of the first starts."""
        self.problems = list(problems)
        self.starts = 0
        self.version = 10
        self.calls: list[tuple[str, int]] = []
        self.answers: list[asyncio.Future[Any]] = []
        self.told: list[tuple[Kind, Any]] = []
        self.figures_error: Exception | None = None
        self.looks = 0  # calls of `figures`
        players: Any = self
        self.link = NodeLink("a", 1, self.start, players, lambda *told: self.told.append(told))
        self.call = SimpleNamespace(remote=self._call)

    def start(self) -> "Node":
        self.starts += 1
        return self

    def newest_weights(self) -> tuple[int, Any, int]:
        self.version += 1
        return self.version, "reference", 100

    def _call(self, method: str, version: int = 0, *arguments: object) -> Awaitable[Any]:
        """A method of the player."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.problems:
            answer.set_exception(UsageError(self.problems.pop(0)))
        elif method != "figures":
            self.calls.append((method, version))
            self.answers.append(answer)
        else:
            self.looks += 1
            if self.figures_error is None:
                answer.set_result({"restarts": 0, "notices": []})
            else:
                answer.set_exception(self.figures_error)
        return answer

    def answer(self, call: tuple[str, int], outcome: object = None) -> None:
        future = self.answers[self.calls.index(call)]
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def said(self) -> list[str]:
        return [text for kind, text in self.told if kind == Kind.NOTICE and "plays with 1 worker" not in text]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def play(node: Node, work: Callable[[], Awaitable[None]]) -> None:
    """Work while the link serves, from the moment at which its player has weights, at the first start of version 11."""

    async def main() -> None:
        serving = asyncio.create_task(node.link.serve())
        try:
            await until(lambda: node.calls)
            node.answer(node.calls[0])
            await until(lambda: node.link.playing)
            del node.calls[:], node.answers[:]
            await work()
        finally:
            serving.cancel()
            await asyncio.wait([serving])

    asyncio.run(main())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "kill", lambda actor: None)
    for name in ("WEIGHTS_SECONDS", "PING_SECONDS", "REFUSED_SECONDS", "FIRST_BACK_OFF"):
        monkeypatch.setattr(node_link, name, SECOND)


def test_weights_are_sent_while_rounds_are_played_and_each_byte_is_told_once() -> None:
    node = Node()

    async def work() -> None:
        await until(lambda: node.looks > 5)
        assert not node.calls, "nobody has asked for a round"
        node.link.request()
        await until(lambda: len(node.calls) == 2)
        assert sorted(node.calls) == [("load_weights", 12), ("next_round", 0)]
        node.answer(("load_weights", 12))
        await until(lambda: len(node.calls) == 3)
        assert node.calls[2] == ("load_weights", 13)
        node.answer(("next_round", 0), [b"content"])
        await until(lambda: not node.link.outstanding)
        assert [told for told in node.told if told[0] == Kind.ROUND] == [(Kind.ROUND, ("a", [b"content"]))]
        figures = node.link.figures()
        assert (figures["received_bytes"], figures["sent_bytes"]) == (7, 100), "the first weights were told at once"
        assert node.link.figures()["received_bytes"] == 0

    play(node, work)


def test_a_slow_network_has_as_much_time_for_rounds_as_for_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(node_link, "time", SimpleNamespace(monotonic=lambda: now))
    node = Node()

    async def work() -> None:
        nonlocal now
        node.link.request()
        await until(lambda: len(node.calls) == 2)
        now += 0.5
        answered_at = asyncio.get_running_loop().time()
        node.answer(("load_weights", 12))
        await until(lambda: len(node.calls) == 3)
        assert node.calls[2] == ("load_weights", 13) and asyncio.get_running_loop().time() - answered_at > 0.4

    play(node, work)


def test_a_slow_start_does_not_delay_newer_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(0, 1000)  # the first weights take so long, because they make the player
    monkeypatch.setattr(node_link, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr(node_link, "LONGEST_PAUSE", 1000)
    node = Node()

    async def work() -> None:
        node.link.request()
        await until(lambda: ("load_weights", 12) in node.calls)

    play(node, work)


def test_a_round_that_the_network_lost_does_not_cost_the_player() -> None:
    node = Node()

    async def work() -> None:
        node.link.request()
        await until(lambda: len(node.calls) == 2)
        node.answer(("next_round", 0), CUT)
        await until(lambda: not node.link.outstanding)
        node.figures_error = CUT
        before = node.looks
        await until(lambda: node.looks >= before + 3)
        node.figures_error = None
        assert node.link.playing and node.starts == 1

    play(node, work)


def test_a_network_that_does_not_come_back_costs_the_player(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_link, "SILENCE_SECONDS", 5 * SECOND)
    node = Node()

    async def work() -> None:
        node.figures_error = CUT
        await until(lambda: node.starts == 2)
        assert node.said() == ["node a is started again: it did not answer"]

    play(node, work)


@pytest.mark.parametrize("call", [("next_round", 0), ("load_weights", 12)])
def test_a_player_that_has_died_is_started_again(call: tuple[str, int]) -> None:
    node = Node()

    async def work() -> None:
        node.link.request()
        await until(lambda: len(node.calls) == 2)
        node.answer(call, ActorDiedError())
        await until(lambda: not node.link.playing)
        assert node.link.capacity == 0 and node.told[-2][1][0]["capacity"] == 0
        await until(lambda: node.starts == 2)
        (said,) = node.said()
        assert said.startswith("node a is started again: its player was lost (")
        assert node.link.counts["restarts"] == 1

    play(node, work)


def test_a_node_that_cannot_play_is_looked_at_again_and_each_reason_is_said_once() -> None:
    node = Node("it has 3 GiB", "it has 2 GiB", "it has no games")
    play(node, lambda: until(lambda: True))
    assert node.said() == ["node a does not play: it has 3 GiB", "node a does not play: it has no games"]
    assert node.starts == 4


def test_a_node_that_does_not_answer_is_not_told_as_playing(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()

    async def work() -> None:
        assert node.link.figures()["capacity"] > 0
        monkeypatch.setattr(node_link, "SILENT_SECONDS", -1.0)
        assert node.link.figures()["capacity"] == 0

    play(node, work)
