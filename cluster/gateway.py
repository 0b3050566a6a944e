"""The inside of the gateway: Ray's driver, the links to all nodes, and the pipe to the learner, in one event loop."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import ray
import torch
from ray.exceptions import RayError

from cluster.cluster_actors import Gateway
from cluster.node_link import NodeLink, Players
from cluster.nodes import ClusterNodes, Node
from cluster.run_state import COMMAND_SECONDS, COMMANDS, RunState
from options.rules import counted
from processes.handover import nameless_file
from processes.inside import HEARTBEAT_SECONDS
from processes.messages import Kind, Message, receive, send

NODES_SECONDS = 0.5  # between two looks at the nodes of the cluster


def serve(gateway: Gateway, connection: Connection) -> None:
    """Connect to Ray, and serve the learner until it closes the connection."""
    torch.set_num_threads(1)  # further ones would spin on cores that workers need
    nodes = ClusterNodes(str(gateway.spec.config.cluster.cluster), gateway.code)
    try:
        asyncio.run(GatewayLoop(gateway, nodes, connection).serve())
    finally:
        ray.shutdown()


class GatewayLoop:
    """Distributes requests for rounds over the nodes, and hands their answers to the learner."""

    def __init__(self, gateway: Gateway, nodes: ClusterNodes, connection: Connection) -> None:
        self._connection = connection
        self._node_workers = gateway.spec.config.cluster.node_workers
        self._nodes = nodes
        self._players = Players(gateway, nodes.actor)
        self._links: dict[str, tuple[NodeLink, asyncio.Task[None]]] = {}  # by Ray's id of the node
        self._wanted = 0  # rounds in all that the learner wants to be asked for
        self._delivered = 0  # of these
        self._closed = asyncio.Event()
        self._run_state = RunState(gateway.begun)
        self._status: dict[str, str] = {}  # `run`: its name, `line`: its state; empty until they are known

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
            case Kind.ROUNDS_WANTED:
                self._wanted = message.index
            case Kind.RUN_STATUS:
                self._status = message.payload
                self._send(Kind.NODE_FIGURES, [link.figures() for link, _ in self._links.values()])

    def _send(self, kind: Kind, payload: Any = None, file: int = -1) -> None:
        try:
            send(self._connection, kind, 0, payload, file)
        except OSError:
            self._closed.set()

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            self._send(Kind.HEARTBEAT)
            self._distribute()  # a node may have become silent

    def _tell(self, kind: Kind, payload: Any) -> None:
        """A link has a message for the learner, or a round."""
        if kind == Kind.ROUND:
            self._delivered += 1
            self._hand_over(*payload)
        else:
            self._send(kind, payload)
        self._distribute()

    def _hand_over(self, node: str, unrolls: Sequence[bytes]) -> None:
        """Send a round in a file of its own: in the pipe, it would keep this process until the learner reads it."""
        file = nameless_file()
        with os.fdopen(file, "wb") as writer:
            writer.writelines(unrolls)
            writer.flush()
            self._send(Kind.ROUND, (node, [len(each) for each in unrolls]), file)

    def _distribute(self) -> None:
        """Ask for as many rounds as the learner wants, each time the node with the fewest open requests a worker."""
        links = [link for link, _ in self._links.values() if not link.is_silent]
        asked = self._delivered + sum(link.outstanding for link in links)
        for _ in range(self._wanted - asked):
            able = [link for link in links if link.outstanding < link.capacity]
            if not able:
                return
            min(able, key=lambda link: (link.outstanding / link.workers, link.asked_at)).request()

    # --- The cluster --------------------------------------------------------------------------------------------------

    async def _watch_nodes(self) -> None:
        """Keep a link to each node that can play, apart from the learner's own."""
        while True:
            for sentence in await asyncio.to_thread(self._nodes.look):
                self._send(Kind.NOTICE, sentence)
            for node_id in self._links.keys() - self._nodes.usable.keys():
                _, task = self._links.pop(node_id)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            for _, task in self._links.values():
                if task.done():  # it serves until it is cancelled, so this is an error, which ends the gateway
                    task.result()
            for node_id, node in self._nodes.usable.items():
                if node_id not in self._links and node_id != self._nodes.own:
                    self._open_link(node_id, node)
            await asyncio.sleep(NODES_SECONDS)

    def _open_link(self, node_id: str, node: Node) -> None:
        if workers := self._node_workers or int(node.cpus):
            start = partial(self._players.start, node_id, str(node.checkout), workers)
            link = NodeLink(node.name, workers, start, self._players, self._tell)
            self._links[node_id] = link, asyncio.create_task(link.serve())

    async def _read_commands(self) -> None:
        """Obey commands from anywhere in the cluster, and show them the state of the run."""
        learner = os.getppid()
        while True:
            await asyncio.sleep(COMMAND_SECONDS)
            lines = [_line(link) for link, _ in self._links.values()]
            with suppress(RayError, ValueError):  # the head is busy or gone; what plays does not need it
                if self._status:
                    state = partial(self._run_state.exchange, **self._status, details=lines)
                    for command in await asyncio.to_thread(state):
                        self._send(Kind.NOTICE, f"{command}: asked for by a command from the cluster")
                        os.kill(learner, COMMANDS[command])


def _line(link: NodeLink) -> str:
    state = f"plays with {counted(link.workers, 'worker')}" if link.playing else "does not play now"
    return f"node {link.name} {state}, restarted {counted(link.counts['restarts'], 'time')}"
