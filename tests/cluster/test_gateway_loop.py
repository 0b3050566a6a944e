"""The inside of the gateway, with stand-ins for Ray and its nodes."""

import asyncio
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

pytest.importorskip("ray")

from cluster import gateway_loop
from cluster.gateway import Gateway
from cluster.gateway_loop import GatewayLoop
from cluster.round_slots import RoundSlots
from workers.memory.shared_weights import SharedWeights
from workers.messages import Kind, receive, send

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


def test_rounds_have_their_sender_and_an_error_of_a_link_ends_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(get_node_id=lambda: "own")
    monkeypatch.setattr(gateway_loop, "ray", SimpleNamespace(nodes=lambda: NODES, get_runtime_context=lambda: context))
    monkeypatch.setattr(gateway_loop, "NodeLink", StandIn)
    monkeypatch.setattr(
        gateway_loop, "RunState", lambda: SimpleNamespace(exchange=lambda lines: [], remove=lambda: None)
    )
    monkeypatch.setattr(gateway_loop, "_described", lambda link: {})
    monkeypatch.setattr(StandIn, "started", [])
    round_slots = RoundSlots(places=2, nbytes=10)
    learner, connection = Pipe()
    gateway = Gateway(
        address="127.0.0.1:1",
        spec=b"",
        code="",
        seed=1,
        resume_count=0,
        restart_index=0,
        node_workers=0,
        weights=SharedWeights(1),
        weights_interval=1.0,
        bfloat16=False,
        round_slots=round_slots,
    )
    for place in range(2):
        send(learner, Kind.SLOT_FREE, place)
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
