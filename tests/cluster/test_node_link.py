"""Calls to a node while the network is cut, with a stand-in for the actor."""

import asyncio
from collections.abc import Awaitable, Callable
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
    actor: Any = type("Actor", (), {"next_round": Outcomes(outcome)})

    async def fetch() -> bool:
        link._lost = asyncio.get_running_loop().create_future()
        await link._fetch(actor, 0)
        return link._lost.done()

    assert asyncio.run(fetch()) == lost
    assert hub.contents == ([outcome] if isinstance(outcome, bytes) else [])
