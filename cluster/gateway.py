"""The inside of the gateway: Ray's driver, the links to all nodes, and the pipe to the learner, in one event loop."""

import asyncio
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any

import ray
import torch

from cluster.cluster_actors import Gateway
from cluster.node_link import NodeLink, Players
from cluster.nodes import ClusterNodes, Node
from processes.inside import HEARTBEAT_SECONDS
from processes.messages import Kind, receive, send

NODES_SECONDS = 0.5  # between two looks at the nodes of the cluster


def serve(gateway: Gateway, connection: Connection) -> None:
    """Connect to Ray, and serve the learner until it closes the connection."""
    torch.set_num_threads(1)  # further ones would spin on cores that workers need
    nodes = ClusterNodes(str(gateway.setup.config.cluster.cluster), gateway.code)
    try:
        asyncio.run(GatewayLoop(gateway, nodes, connection).serve())
    finally:
        ray.shutdown()


class GatewayLoop:
    """Distributes requests for rounds over the nodes, and hands their answers to the learner."""

    def __init__(self, gateway: Gateway, nodes: ClusterNodes, connection: Connection) -> None:
        self._connection = connection
        self._node_workers = gateway.setup.config.cluster.node_workers
        self._nodes = nodes
        self._players = Players(gateway, nodes.actor)
        self._links: dict[str, tuple[NodeLink, asyncio.Task[None]]] = {}  # by Ray's id of the node
        self._wanted = 0  # rounds in all that the learner wants to be asked for
        self._delivered = 0  # of these
        self._closed = asyncio.Event()
        self._outbox = SimpleQueue[tuple[Kind, Any] | None]()  # for the learner; None: nothing follows

    async def serve(self) -> None:
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._read)
        self._tell(Kind.HEARTBEAT)
        sender = Thread(target=self._send, daemon=True)
        sender.start()
        tasks = [asyncio.create_task(work()) for work in (self._heartbeat, self._watch_nodes, self._closed.wait)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._outbox.put(None)
            sender.join()  # an error is sent from this thread

    # --- The learner --------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Receive what the learner has sent."""
        try:
            while self._connection.poll():
                self._wanted = receive(self._connection).index
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            self._closed.set()
        self._distribute()

    def _send(self) -> None:
        """A thread's work: a round fills the pipe, and waits there until the learner reads it."""
        with suppress(OSError):  # the learner has closed it, which `_read` notices
            while (message := self._outbox.get()) is not None:
                kind, payload = message
                send(self._connection, kind, payload=payload)

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            self._tell(Kind.HEARTBEAT)
            self._tell(Kind.NODE_FIGURES, [link.figures() for link, _ in self._links.values()])

    def _tell(self, kind: Kind, payload: Any = None) -> None:
        """Tell the learner something; it may also be a round."""
        self._delivered += kind == Kind.ROUND
        self._outbox.put((kind, payload))
        self._distribute()  # a node may have become silent, too

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
                self._tell(Kind.NOTICE, sentence)
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
