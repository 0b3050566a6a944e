"""The learner's side of the gateway: starts it, receives its messages, and replaces it when it is lost."""

from collections.abc import Callable
from typing import Any

from cluster.gateway import Gateway
from processes.messages import Kind, Message
from processes.pool import ChildPool, Ended, Member
from processes.printed import kind_of_error, reason

SILENCE_SECONDS = 60.0  # without a heartbeat, after which the gateway is replaced; loading Ray takes some of them
UNREACHABLE_SECONDS = 5.0  # between two tries to reach a head that does not answer
END_SECONDS = 3.0  # for an end in good order


class GatewayProcess:
    """Keeps one gateway running. A cluster that cannot be reached is tried again and again, and the run goes on.

    `started` and `ended` are called when a gateway has connected to the cluster, and when it has ended.
    """

    def __init__(
        self,
        children: ChildPool,  # that has no other child
        make_gateway: Callable[[int], Gateway],  # from the number of gateways before it
        received: Callable[[Message], None],
        started: Callable[[], None],
        ended: Callable[[], None],
        announce: Callable[[str], None],
    ) -> None:
        self.children = children
        self._received = received
        self._started = started
        self._ended = ended
        self._announce = announce
        self._member = Member("the gateway to the cluster", make_gateway, owes_at_start=1)
        self._connected = False
        self._unreachable = ""  # why the cluster cannot be reached, once announced
        children.start_later(self._member, 0.0)

    @property
    def is_connected(self) -> bool:
        return self._connected

    def process_ids(self) -> list[int]:
        return self.children.process_ids()

    def send(self, kind: Kind, index: int = 0, payload: Any = None) -> None:
        """Send a message to a gateway that has connected; another one is told everything when it has."""
        if self._connected and self._member.child is not None:
            self._member.child.send(kind, index, payload)

    def poll(self) -> None:
        """Receive what the gateway has sent, and replace it if it is lost or silent."""
        for _, event in self.children.poll(0.0):
            if isinstance(event, Ended):
                self._replace(event)
            else:
                self._receive(event)

    def close(self) -> None:
        """End the gateway, and with it everything of the run in the cluster."""
        self.children.end(self._member, grace=END_SECONDS)  # its pipe is closed: so it leaves the cluster in good order
        self.children.close()

    def _receive(self, message: Message) -> None:
        if message.kind == Kind.HEARTBEAT:
            if message.index and not self._connected:
                self._connected = True
                if self._unreachable:
                    self._unreachable = ""
                    self._announce("the cluster answers again")
                self._started()
            elif self._connected:  # it has worked for a while: only failures of a start count as failures in a row
                self._member.history.failures = 0
            return
        self._received(message)

    def _replace(self, ended: Ended) -> None:
        was_connected, self._connected = self._connected, False
        self._ended()
        if was_connected:
            self.children.replace(self._member, ended)
            return
        self.children.start_later(self._member, UNREACHABLE_SECONDS)
        why = reason(ended.details) or f"its gateway {ended.what}"
        if kind_of_error(why) != kind_of_error(self._unreachable):
            self._announce(
                f"the cluster cannot be reached ({why}); the run goes on without it, and tries again every "
                f"{UNREACHABLE_SECONDS:g} seconds"
            )
        self._unreachable = why
