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
from cluster.rounds import RoundSlots
from option_flags import Config
from processes.messages import Kind, receive, send
from workers.memory.shared_weights import SharedWeights

NODES = [
    {"NodeID": name, "NodeName": name, "Alive": True, "Resources": {"CPU": cpus}}
    for name, cpus in (("own", 4), ("head", 0), ("a", 2))
]


def make_gateway(slots: RoundSlots, bfloat16: bool = False) -> Gateway:
    config = Config.from_flags({"cluster": "127.0.0.1:1"})
    return Gateway(
        config, b"", "", 0.0, 0, restart_index=0, weights=SharedWeights(1), bfloat16=bfloat16, round_slots=slots
    )


@pytest.mark.parametrize("bfloat16", [False, True])
def test_all_nodes_get_the_same_copy_of_the_weights_for_the_interval(
    bfloat16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[Any] = []

    def put(weights: Any) -> Any:
        copies.append(weights.copy())
        return copies[-1]

    now = 0.0
    monkeypatch.setattr(node_link, "ray", SimpleNamespace(remote=lambda kind: kind, put=put))
    monkeypatch.setattr(node_link, "time", SimpleNamespace(monotonic=lambda: now))
    started = make_gateway(RoundSlots(count=1, nbytes=1), bfloat16)
    players = Players(started)
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


class StandIn:
    """In place of a NodeLink: the node answers with two rounds, the second one longer than any round, then it fails."""

    def __init__(self, players: Any, tell: Any, node_id: str, name: str, workers: int) -> None:
        self._tell = tell
        self.name, self.workers = name, workers
        self.is_silent, self.playing, self.outstanding, self.capacity = False, True, 0, 0
        self.counts = {"restarts": 0}

    async def serve(self) -> None:
        for length in (3, 30):
            self._tell(Kind.SLOT_FILLED, (self.name, b"x" * length))
        await asyncio.sleep(0)
        raise RuntimeError("no link today")


def test_rounds_have_their_node_and_an_error_of_a_link_ends_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(get_node_id=lambda: "own")
    stand_in = SimpleNamespace(nodes=lambda: NODES, get_runtime_context=lambda: context)
    monkeypatch.setattr(gateway, "ray", stand_in)
    monkeypatch.setattr(gateway, "NodeLink", StandIn)
    slots = RoundSlots(count=2, nbytes=10)
    learner, connection = Pipe()
    for slot in range(2):
        send(learner, Kind.SLOT_FREE, slot)
    with pytest.raises(RuntimeError, match="no link today"):
        asyncio.run(asyncio.wait_for(GatewayLoop(make_gateway(slots), connection).serve(), 60))
    rounds = []
    while learner.poll():
        message = receive(learner)
        if message.kind == Kind.SLOT_FILLED:
            node, length = message.payload
            rounds.append((node, bytes(slots.read(message.index, length))))
    assert rounds == [("a", b"xxx"), ("a", b"x" * 10)], "neither the learner's own node nor one without CPUs plays"
