"""The inside of the gateway, with stand-ins for Ray and its nodes."""

import asyncio
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("ray")

from cluster import gateway, node_link
from cluster.cluster_actors import Gateway
from cluster.gateway import GatewayLoop
from cluster.node_link import Players
from cluster.nodes import Node
from option_flags import Config
from processes.messages import Kind, receive, send
from tests.catch import make_catch
from tests.cluster.test_intake import LAYOUT, MACHINE
from workers.shared_weights import SharedWeights
from workers.worker import PlaySetup


def make_gateway(bfloat16: bool = False) -> Gateway:
    config = Config.from_flags({"cluster": "127.0.0.1:1"})
    setup = PlaySetup(config, make_catch, LAYOUT, MACHINE)
    return Gateway(setup, {}, "", SharedWeights(1), bfloat16, restart_index=0)


@pytest.mark.parametrize("bfloat16", [False, True])
def test_all_nodes_get_the_same_copy_of_the_weights_for_the_interval(
    bfloat16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[Any] = []

    def put(weights: Any) -> Any:
        copies.append(weights.copy())
        return copies[-1]

    now = 0.0
    monkeypatch.setattr(node_link, "ray", SimpleNamespace(put=put))
    monkeypatch.setattr(node_link, "time", SimpleNamespace(monotonic=lambda: now))
    started = make_gateway(bfloat16)
    players = Players(started, None)
    started.weights.publish(3, torch.tensor([1.5]))
    version, reference, size = players.newest_weights()
    assert (version, size) == (3, 2 if bfloat16 else 4)
    stored = torch.from_numpy(np.asarray(reference))
    assert (stored.view(torch.bfloat16) if bfloat16 else stored).item() == 1.5
    started.weights.publish(4, torch.tensor([2.5]))
    now = 0.09
    assert players.newest_weights()[0] == 3 and len(copies) == 1
    now = 0.11
    assert players.newest_weights()[0] == 4 and len(copies) == 2
    now = 0.22
    assert players.newest_weights()[0] == 4 and len(copies) == 2, "there are no newer ones"


class Nodes:
    """In place of ClusterNodes: the learner's own node, one without CPUs, and `a`."""

    actor, own = None, "own"

    def __init__(self) -> None:
        cpus = {"own": 4.0, "head": 0.0, "a": 2.0}
        self.usable = {name: Node(name, checkout="there", cpus=cpus[name]) for name in cpus}

    def look(self) -> list[str]:
        return ["node b is left out: it sleeps"]


class Link:
    """In place of a NodeLink: it answers each request at once; after as many as the learner wants, it fails."""

    is_silent, playing, outstanding, capacity, asked_at = False, True, 0, 4, 0.0

    def __init__(self, name: str, workers: int, start: Any, players: Any, tell: Any) -> None:
        self.name, self.workers = name, workers
        self._tell = tell
        self._requests = 0

    async def serve(self) -> None:
        while not self._requests:
            await asyncio.sleep(0.001)
        for _ in range(self._requests):
            self.outstanding -= 1
            self._tell(Kind.ROUND, (self.name, [b"two", b"unrolls"]))
        await asyncio.sleep(0)
        raise RuntimeError(f"no link today, after {self._requests} requests")

    def figures(self) -> dict[str, Any]:
        return {}

    def request(self) -> None:
        self._requests += 1
        self.outstanding += 1


@pytest.mark.slow
def test_nodes_are_asked_for_what_is_wanted_and_an_error_of_a_link_ends_the_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateway, "NodeLink", Link)
    learner, connection = Pipe()
    send(learner, Kind.ROUNDS_WANTED, 3)
    nodes: Any = Nodes()
    with pytest.raises(RuntimeError, match="no link today, after 3 requests"):
        asyncio.run(asyncio.wait_for(GatewayLoop(make_gateway(), nodes, connection).serve(), 60))
    messages = []
    while learner.poll():
        messages.append(receive(learner))
    assert "node b is left out: it sleeps" in [message.payload for message in messages]
    rounds = [message.payload for message in messages if message.kind == Kind.ROUND]
    assert rounds == [("a", [b"two", b"unrolls"])] * 3, "neither the learner's own node nor one without CPUs plays"
