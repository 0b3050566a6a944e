"""Ports of this machine that no program listens at."""

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Different ports; another program may take one before it is used, which is rare."""
    with ExitStack() as probes:
        sockets = [probes.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in sockets]
