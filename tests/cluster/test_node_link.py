"""Calls to a node while the network is cut, with a stand-in for the actor."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("ray")

from ray.exceptions import ActorDiedError, ActorUnavailableError

from cluster import node_link
from cluster.node_link import NodeLink

pytestmark = pytest.mark.slow


class Outcomes:
    """A method of an actor whose calls end like this, one after another; the last outcome stays."""

    def __init__(self, *outcomes: object) -> None:
        self.calls = 0
        self._outcomes = outcomes

    def remote(self, *arguments: object) -> Awaitable[Any]:
        outcome = self._outcomes[min(self.calls, len(self._outcomes) - 1)]
        self.calls += 1

        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)
        return answer


def cut() -> ActorUnavailableError:
    return ActorUnavailableError("the connection was reset", None)


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await work()

    return asyncio.run(main())


def test_a_call_is_made_again_while_the_network_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_link, "PING_SECONDS", 0.01)
    method = Outcomes(cut(), cut(), "here")
    assert run(lambda: node_link._reached(method.remote, 10.0)) == "here"
    assert method.calls == 3


def test_a_network_that_does_not_come_back_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_link, "PING_SECONDS", 0.01)
    with pytest.raises(TimeoutError):
        run(lambda: node_link._reached(Outcomes(cut()).remote, 0.1))


def test_an_actor_that_has_died_is_not_called_again() -> None:
    method = Outcomes(ActorDiedError(), "here")
    with pytest.raises(ActorDiedError):
        run(lambda: node_link._reached(method.remote, 10.0))
    assert method.calls == 1


class Landed:
    """In place of the gateway."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []

    def landed(self, link: NodeLink, content: bytes) -> None:
        self.contents.append(content)


@pytest.mark.parametrize(("outcome", "lost"), [(cut(), False), (ActorDiedError(), True), (b"a round", False)])
def test_a_round_that_the_network_lost_does_not_cost_the_player(outcome: object, lost: bool) -> None:
    hub: Any = Landed()
    link = NodeLink(hub, "id", 0, "node", 1, 1)
    link._actor = type("Actor", (), {"next_round": Outcomes(outcome)})  # type: ignore[assignment]
    link.playing = True

    async def fetch() -> None:
        async with asyncio.TaskGroup() as link._tasks:
            link.outstanding += 1
            link._tasks.create_task(link._fetch(0))

    with pytest.raises(ExceptionGroup) if lost else nullcontext():
        asyncio.run(fetch())
    assert link.playing != lost and link.outstanding == 0
    assert hub.contents == ([outcome] if isinstance(outcome, bytes) else [])


class Node:
    """In place of a gateway and of the actor: newer weights at each look, and each call ends when the test says so."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.answers: list[asyncio.Future[Any]] = []
        self.version = 10
        self.load_weights, self.next_round = self._method("weights"), self._method("round")

    def newest_weights(self) -> tuple[int, Any, int]:
        self.version += 1
        return self.version, "reference", 100

    def landed(self, link: NodeLink, content: bytes) -> None:
        """The round is counted by the link."""

    def _method(self, name: str) -> Any:
        def remote(version: int, *arguments: object) -> Awaitable[Any]:
            self.calls.append((name, version))
            self.answers.append(asyncio.get_running_loop().create_future())
            return self.answers[-1]

        return type("Method", (), {"remote": staticmethod(remote)})


def linked() -> tuple[Any, NodeLink]:
    """A node with one worker that has weights of version 10, and the link to it."""
    node: Any = Node()
    link = NodeLink(node, "id", 0, "node", 1, workers=1)
    link._actor = node
    link._version = link._arrived = 10
    return node, link


class EndedError(Exception):
    """Ends the tasks of a player."""


async def as_player(link: NodeLink, work: Callable[[], Awaitable[None]]) -> None:
    """Work while a player plays."""
    try:
        async with asyncio.TaskGroup() as link._tasks:
            await work()
            raise EndedError
    except* EndedError:
        pass


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_request_waits_for_weights_that_are_sent_with_it() -> None:
    node, link = linked()

    async def requests() -> None:
        link.request()
        await settle()
        assert sorted(node.calls) == [("round", 11), ("weights", 11)]
        link.request()
        await settle()
        assert node.calls[2:] == [("round", 10)], "it does not wait for weights that others have asked for"
        node.answers[node.calls.index(("weights", 11))].set_result(None)
        await asyncio.sleep(0.01)
        await settle()
        assert node.calls[3:] == [("weights", 12)], "the second round is not played yet, because there is one worker"
        for call, answer in zip(node.calls, node.answers, strict=True):
            if not answer.done():
                answer.set_result(b"content" if call[0] == "round" else None)
        await asyncio.sleep(0.01)
        await settle()
        assert node.calls[4:] == [] and not link.outstanding
        assert (link.received_bytes, link.sent_bytes) == (14, 200)
        await asyncio.sleep(0.1)
        link.request()
        await settle()
        assert sorted(node.calls[4:]) == [("round", 13), ("weights", 13)]

    asyncio.run(as_player(link, requests))


def test_a_slow_network_has_as_much_time_for_rounds_as_for_weights() -> None:
    node, link = linked()

    async def requests() -> None:
        link.request()
        await asyncio.sleep(0.2)
        node.answers[node.calls.index(("weights", 11))].set_result(None)
        await asyncio.sleep(0.05)
        link.request()
        await settle()
        assert node.calls[2:] == [("round", 11)], "the pause is as long as the weights took"
        await asyncio.sleep(0.3)
        assert node.calls[3:] == [("weights", 12)]

    asyncio.run(as_player(link, requests))


def test_a_node_that_fails_for_hours_is_still_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    hub: Any = type("Hub", (), {"notice": staticmethod(said.append)})
    link = NodeLink(hub, "id", 0, "node", 1, 1)
    link._failures = 5000
    pauses: list[float] = []
    outcomes = iter([("", "lost 1"), ("", "lost 2"), ("it has 3 GiB", ""), ("it has 2 GiB", "")])

    async def play() -> tuple[str, str]:
        for outcome in outcomes:
            return outcome
        raise asyncio.CancelledError

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(link, "_play", play)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(link.serve())
    assert pauses == [30.0] * 4
    assert said == ["node node is started again: lost 1", "node node does not play: it has 3 GiB"]
