"""The inside of the gateway: Ray's driver, the links to all nodes, and the pipe to the learner, in one event loop."""

import asyncio
import math
import time
from collections import deque
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import ray
import torch
from ray import ObjectRef, cloudpickle
from ray.exceptions import RayError

from cluster import node_actor, node_code
from cluster.find_cluster import connect
from cluster.gateway import Gateway
from cluster.node_link import NodeLink
from cluster.run_state import COMMAND_SECONDS, RunState
from cluster.task_errors import first_line
from options.rules import counted
from processes.inside import HEARTBEAT_SECONDS, beat
from processes.messages import Kind, Message, receive, send
from processes.printed import KindsOfErrors
from workers.random_streams import stream_of

NODES_SECONDS = 1.0  # between two looks at the nodes of the cluster


def serve(gateway: Gateway, connection: Connection) -> None:
    """Connect to Ray, and serve the learner until it closes the connection."""
    torch.set_num_threads(1)  # further ones would spin on cores that workers need
    connect(gateway.address)
    for module in (node_code, node_actor):  # a node unpickles the actor before it knows where its own code is
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        asyncio.run(GatewayLoop(gateway, connection).serve())
    finally:
        ray.shutdown()


class GatewayLoop:
    """Distributes requests for rounds over the nodes, and hands their answers to the learner."""

    def __init__(self, gateway: Gateway, connection: Connection) -> None:
        self.spec, self.code = gateway.spec, gateway.code
        self.actor_class: Any = ray.remote(node_actor.NodeActor)
        self._gateway = gateway
        self._connection = connection
        self._own_node = ray.get_runtime_context().get_node_id()
        self._links: dict[str, tuple[NodeLink, asyncio.Task[None]]] = {}  # by Ray's id of the node
        self._numbers = self._links_opened = 0
        self._wanted = 0  # rounds that may be in flight
        self._free_slots: deque[int] = deque()
        self._waiting: deque[tuple[int, bytes]] = deque()  # players and rounds for which no slot is free
        self._flat = torch.zeros(gateway.weights.weight_count)
        self._version = -1
        self._reference: ObjectRef[Any] | None = None
        self._size = 0
        self._put_at = -math.inf
        self._closed = asyncio.Event()
        self._run_state = RunState(gateway.begun)
        self._announced = KindsOfErrors()

    async def serve(self) -> None:
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._read)
        send(self._connection, Kind.HEARTBEAT, 1)
        tasks = [
            asyncio.create_task(work())
            for work in (self._heartbeat, self._watch_nodes, self._read_commands, self._closed.wait)
        ]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        with suppress(Exception):  # the run has ended; that its state cannot be removed any more is no error
            await asyncio.to_thread(self._run_state.remove)
        for task in done:
            task.result()

    # --- The learner --------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Receive what the learner has sent."""
        try:
            while self._connection.poll():
                self._received(receive(self._connection))
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            self._closed.set()
        self._distribute()

    def _received(self, message: Message) -> None:
        match message.kind:
            case Kind.SLOT_FREE:
                self._free_slots.append(message.index)
                self._hand_over()
            case Kind.ROUNDS_WANTED:
                self._wanted = message.index
            case Kind.NODE_FIGURES:
                self._send(Kind.NODE_FIGURES, payload=self._figures())
            case Kind.RUN_STATUS:
                self._run_state.status = message.payload

    def _send(self, kind: Kind, index: int = 0, payload: Any = None) -> None:
        try:
            send(self._connection, kind, index, payload)
        except OSError:
            self._closed.set()

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            try:
                beat(self._connection)
            except OSError:
                self._closed.set()
            self._distribute()  # a node may have become silent

    def _hand_over(self) -> None:
        while self._waiting and self._free_slots:
            slot = self._free_slots.popleft()
            self._gateway.round_slots.write(slot, *self._waiting.popleft())
            self._send(Kind.SLOT_FILLED, slot)

    def _figures(self) -> list[dict[str, Any]]:
        return [_described(link) for link, _ in self._links.values()]

    # --- The links' hub -----------------------------------------------------------------------------------------------

    def next_number(self) -> tuple[int, int]:
        gateway, count = self._gateway, self._numbers
        self._numbers += 1
        stream = stream_of("node", gateway.seed, gateway.resume_count, gateway.restart_index, count)
        return (gateway.restart_index << 32) + count, int(stream.generate_state(1)[0] >> 1)

    def joined(self, link: NodeLink) -> None:
        self._send(Kind.NODE_JOINED, payload=_described(link))
        self._distribute()

    def left(self, link: NodeLink) -> None:
        self._send(Kind.NODE_LEFT, payload=_described(link))
        self._distribute()

    def landed(self, link: NodeLink, content: bytes) -> None:
        # Longer than any round: cut here, and then refused by the learner as malformed.
        self._waiting.append((link.number, content[: self._gateway.round_slots.nbytes]))
        self._hand_over()
        self._distribute()

    def notice(self, text: str) -> None:
        self._send(Kind.NOTICE, payload=text)

    def _notice_once(self, text: str) -> None:
        if self._announced.is_new(text):
            self.notice(text)

    def newest_weights(self) -> tuple[int, ObjectRef[Any], int]:
        """The version of the newest weights, their size, and where they are in Ray's memory: one copy for all nodes."""
        now = time.monotonic()
        if self._reference is None or now - self._put_at >= self._gateway.weights_interval:
            self._put_at = now
            version = self._gateway.weights.copy_newer(self._version, self._flat)
            if version > self._version or self._reference is None:
                vector = self._flat.bfloat16().view(torch.int16) if self._gateway.bfloat16 else self._flat
                try:
                    self._reference = ray.put(vector.numpy())
                    self._version, self._size = version, vector.numel() * vector.element_size()
                except RayError as error:
                    if self._reference is None:
                        raise
                    self._notice_once(
                        f"nodes play with older weights: Ray could not store newer ones ({first_line(error)})"
                    )
        return self._version, self._reference, self._size

    def _distribute(self) -> None:
        """Ask for as many rounds as the learner wants, each time the node with the fewest open requests a worker."""
        slots_taken = self._gateway.round_slots.count - len(self._free_slots)
        links = [link for link, _ in self._links.values() if not link.is_silent]
        in_flight = sum(link.outstanding for link in links) + len(self._waiting) + slots_taken
        for _ in range(self._wanted - in_flight):
            able = [link for link in links if link.outstanding < link.capacity]
            if not able:
                return
            min(able, key=lambda link: (link.outstanding / link.workers, link.asked_at)).request()

    # --- The cluster --------------------------------------------------------------------------------------------------

    async def _watch_nodes(self) -> None:
        """Keep a link to each node that is in the cluster, apart from the learner's own."""
        while True:
            nodes = await asyncio.to_thread(ray.nodes)
            alive = {node["NodeID"]: node for node in nodes if node["Alive"] and node["NodeID"] != self._own_node}
            for node_id in self._links.keys() - alive.keys():
                await self._close_link(node_id)
            for _, task in self._links.values():
                if task.done():  # it serves until it is cancelled, so this is an error, which ends the gateway
                    task.result()
            for node_id in alive.keys() - self._links.keys():
                self._open_link(node_id, alive[node_id])
            await asyncio.sleep(NODES_SECONDS)

    def _open_link(self, node_id: str, node: dict[str, Any]) -> None:
        workers = self._gateway.node_workers or int(node["Resources"].get("CPU", 0))
        if not workers:
            return
        others = [link for link, _ in self._links.values()]
        seats = {link.seat for link in others}
        seat = next(number for number in range(1, len(seats) + 2) if number not in seats)
        name = str(node.get("NodeName") or node["NodeManagerAddress"])
        if any(link.name == name for link in others):  # several nodes on one machine
            name = f"{name}#{seat}"
        link = NodeLink(self, node_id, self._links_opened, name, seat, workers)
        self._links_opened += 1
        self._links[node_id] = link, asyncio.create_task(link.serve())

    async def _close_link(self, node_id: str) -> None:
        link, task = self._links.pop(node_id)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        self.notice(f"node {link.name} left the cluster")
        self._distribute()

    async def _read_commands(self) -> None:
        """Pass commands from anywhere in the cluster on to the learner, and show them its state."""
        while True:
            lines = [_line(link) for link, _ in self._links.values()]
            try:
                for command in await asyncio.to_thread(self._run_state.exchange, lines):
                    self._send(Kind.COMMAND, payload=command)
            except (RayError, ValueError) as error:  # the head is busy or gone; what plays does not need it
                self._notice_once(f"commands cannot be read now ({first_line(error)})")
            await asyncio.sleep(COMMAND_SECONDS)


def _line(link: NodeLink) -> str:
    state = f"plays with {counted(link.workers, 'worker')}" if link.playing else "does not play now"
    return f"node {link.name} {state}, restarted {counted(link.restarts, 'time')}"


def _described(link: NodeLink) -> dict[str, Any]:
    return {
        "link": link.index,
        "number": link.number,
        "seat": link.seat,
        "name": link.name,
        "alive": link.playing,
        "workers": link.workers,
        "capacity": link.capacity,
        "restarts": link.restarts,
        "received_bytes": link.received_bytes,
        "sent_bytes": link.sent_bytes,
        "round_trip_ms": link.round_trip_ms,
        "publish_ms": link.publish_ms,
    }
