"""The inside of the gateway, with stand-ins for Ray and its nodes."""

import asyncio
from collections.abc import Callable
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

pytest.importorskip("ray")

from ray.exceptions import ObjectStoreFullError

from cluster import gateway_loop
from cluster.gateway import Gateway
from cluster.gateway_loop import GatewayLoop
from cluster.round_format import RoundSlots
from processes.messages import Kind, receive, send
from workers.memory.shared_weights import SharedWeights

pytestmark = pytest.mark.slow

NODES = [
    {"NodeID": name, "NodeName": name, "Alive": True, "Resources": {"CPU": cpus}}
    for name, cpus in (("own", 4), ("head", 0), ("a", 2))
]


class StandIn:
    """In place of a NodeLink: the node answers with two rounds, the second one longer than any round, then it fails."""

    started: ClassVar[list["StandIn"]] = []

    def __init__(self, hub: Any, node_id: str, index: int, name: str, seat: int, workers: int) -> None:
        self._hub = hub
        self.name, self.seat, self.workers, self.number = name, seat, workers, 7
        self.is_silent, self.playing, self.outstanding, self.capacity, self.restarts = False, True, 0, 0, 0
        self.started.append(self)

    async def serve(self) -> None:
        for length in (3, 30):
            self._hub.landed(self, b"x" * length)
        await asyncio.sleep(0)
        raise RuntimeError("no link today")


def replace_ray(monkeypatch: pytest.MonkeyPatch, put: Callable[[Any], object] = np.array) -> None:
    context = SimpleNamespace(get_node_id=lambda: "own")
    stand_in = SimpleNamespace(
        nodes=lambda: NODES, get_runtime_context=lambda: context, remote=lambda kind: kind, put=put
    )
    monkeypatch.setattr(gateway_loop, "ray", stand_in)
    monkeypatch.setattr(
        gateway_loop, "RunState", lambda begun: SimpleNamespace(exchange=lambda lines: [], remove=lambda: None)
    )


def make_gateway(round_slots: RoundSlots, bfloat16: bool = False) -> Gateway:
    return Gateway(
        address="127.0.0.1:1",
        spec=b"",
        code="",
        begun=0.0,
        seed=1,
        resume_count=0,
        restart_index=0,
        node_workers=0,
        weights=SharedWeights(1),
        weights_interval=1.0,
        bfloat16=bfloat16,
        round_slots=round_slots,
    )


@pytest.mark.parametrize("bfloat16", [False, True])
def test_all_nodes_get_the_same_copy_of_the_weights_for_the_interval(
    bfloat16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[Any] = []

    def put(weights: Any) -> Any:
        if copies == ["full"]:
            raise ObjectStoreFullError("the store is full\nand more")
        copies.append(weights.copy())
        return copies[-1]

    replace_ray(monkeypatch, put)
    now = 0.0
    monkeypatch.setattr(gateway_loop, "time", SimpleNamespace(monotonic=lambda: now))
    gateway = make_gateway(RoundSlots(count=1, nbytes=1), bfloat16)
    learner, connection = Pipe()
    loop = GatewayLoop(gateway, connection)
    gateway.weights.publish(3, torch.tensor([1.5]))
    version, reference, size = loop.newest_weights()
    assert (version, size) == (3, 2 if bfloat16 else 4)
    stored = torch.from_numpy(reference)
    assert (stored.view(torch.bfloat16) if bfloat16 else stored).item() == 1.5
    gateway.weights.publish(4, torch.tensor([2.5]))
    now = 0.9
    assert loop.newest_weights()[0] == 3 and len(copies) == 1
    now = 1.1
    assert loop.newest_weights()[0] == 4 and len(copies) == 2
    now = 2.2
    assert loop.newest_weights()[0] == 4 and len(copies) == 2, "there are no newer ones"

    copies[:] = ["full"]
    for version in (5, 6):
        gateway.weights.publish(version, torch.tensor([3.5]))
        now += 1.1
        assert loop.newest_weights()[0] == 4
    assert receive(learner).payload == (
        "nodes play with older weights: Ray could not store newer ones (the store is full)"
    )
    assert not learner.poll(), "it is said once"


def test_rounds_have_their_sender_and_an_error_of_a_link_ends_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_ray(monkeypatch)
    monkeypatch.setattr(gateway_loop, "NodeLink", StandIn)
    monkeypatch.setattr(gateway_loop, "_described", lambda link: {})
    monkeypatch.setattr(StandIn, "started", [])
    round_slots = RoundSlots(count=2, nbytes=10)
    learner, connection = Pipe()
    gateway = make_gateway(round_slots)
    for slot in range(2):
        send(learner, Kind.SLOT_FREE, slot)
    with pytest.raises(RuntimeError, match="no link today"):
        asyncio.run(asyncio.wait_for(GatewayLoop(gateway, connection).serve(), 60))
    assert [link.name for link in StandIn.started] == ["a"], "neither the learner's own node nor one without CPUs"
    filled = []
    while learner.poll():
        message = receive(learner)
        if message.kind == Kind.SLOT_FILLED:
            filled.append(message.index)
    assert [(sender, bytes(content)) for sender, content in map(round_slots.read, filled)] == [
        (7, b"xxx"),
        (7, b"x" * 10),
    ]
