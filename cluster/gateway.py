"""The inside of the gateway: Ray's driver, the links to all nodes, and the pipe to the learner, in one event loop."""

import asyncio
from collections import deque
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import ray
import torch
from ray.exceptions import RayError

from cluster import node_actor
from cluster.cluster_actors import Gateway
from cluster.node_link import NodeLink, Players
from cluster.nodes import connect, send_by_value, unique_name
from cluster.run_state import COMMAND_SECONDS, RunState
from options.rules import counted
from processes.inside import HEARTBEAT_SECONDS
from processes.messages import Kind, Message, receive, send

NODES_SECONDS = 1.0  # between two looks at the nodes of the cluster


def serve(gateway: Gateway, connection: Connection) -> None:
    """Connect to Ray, and serve the learner until it closes the connection."""
    torch.set_num_threads(1)  # further ones would spin on cores that workers need
    assert gateway.config.cluster.cluster is not None
    connect(gateway.config.cluster.cluster)
    send_by_value(node_actor)  # a node unpickles the actor before it knows where its own code is
    try:
        asyncio.run(GatewayLoop(gateway, connection).serve())
    finally:
        ray.shutdown()


class GatewayLoop:
    """Distributes requests for rounds over the nodes, and hands their answers to the learner."""

    def __init__(self, gateway: Gateway, connection: Connection) -> None:
        self._connection = connection
        self._node_workers = gateway.config.cluster.node_workers
        self._slots = gateway.round_slots
        self._own_node = ray.get_runtime_context().get_node_id()
        self._players = Players(gateway)
        self._links: dict[str, tuple[NodeLink, asyncio.Task[None]]] = {}  # by Ray's id of the node
        self._wanted = 0  # rounds that may be in flight
        self._free_slots: deque[int] = deque()
        self._waiting: deque[tuple[str, bytes]] = deque()  # nodes and their rounds, for which no slot is free
        self._closed = asyncio.Event()
        self._run_state = RunState(gateway.begun)

    async def serve(self) -> None:
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._read)
        send(self._connection, Kind.HEARTBEAT, 1)
        tasks = [
            asyncio.create_task(work())
            for work in (self._heartbeat, self._watch_nodes, self._read_commands, self._closed.wait)
        ]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
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
            case Kind.RUN_STATUS:
                self._run_state.status = message.payload
                self._send(Kind.NODE_FIGURES, payload=[link.figures() for link, _ in self._links.values()])

    def _send(self, kind: Kind, index: int = 0, payload: Any = None) -> None:
        try:
            send(self._connection, kind, index, payload)
        except OSError:
            self._closed.set()

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            self._send(Kind.HEARTBEAT)
            self._distribute()  # a node may have become silent

    def _tell(self, kind: Kind, payload: Any) -> None:
        """A link has a message for the learner, or a round."""
        if kind == Kind.SLOT_FILLED:
            self._waiting.append(payload)
            self._hand_over()
        else:
            self._send(kind, payload=payload)
        self._distribute()

    def _hand_over(self) -> None:
        while self._waiting and self._free_slots:
            slot = self._free_slots.popleft()
            node, content = self._waiting.popleft()
            # Longer than any round: cut here, and then refused by the learner as malformed.
            content = content[: self._slots.nbytes]
            self._slots.write(slot, content)
            self._send(Kind.SLOT_FILLED, slot, (node, len(content)))

    def _distribute(self) -> None:
        """Ask for as many rounds as the learner wants, each time the node with the fewest open requests a worker."""
        slots_taken = self._slots.count - len(self._free_slots)
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
        workers = self._node_workers or int(node["Resources"].get("CPU", 0))
        if workers:
            name = unique_name(node, {link.name for link, _ in self._links.values()})
            link = NodeLink(self._players, self._tell, node_id, name, workers)
            self._links[node_id] = link, asyncio.create_task(link.serve())

    async def _close_link(self, node_id: str) -> None:
        link, task = self._links.pop(node_id)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        self._tell(Kind.NOTICE, f"node {link.name} left the cluster")

    async def _read_commands(self) -> None:
        """Pass commands from anywhere in the cluster on to the learner, and show them its state."""
        while True:
            lines = [_line(link) for link, _ in self._links.values()]
            with suppress(RayError, ValueError):  # the head is busy or gone; what plays does not need it
                for command in await asyncio.to_thread(self._run_state.exchange, lines):
                    self._send(Kind.COMMAND, payload=command)
            await asyncio.sleep(COMMAND_SECONDS)


def _line(link: NodeLink) -> str:
    state = f"plays with {counted(link.workers, 'worker')}" if link.playing else "does not play now"
    return f"node {link.name} {state}, restarted {counted(link.counts['restarts'], 'time')}"
