"""The newest report at http://<host>:<port>/metrics, for Prometheus."""

import errno
import re
import socket
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric

from options.rules import UsageError
from run_files.metrics import Episode, Report, flat_numbers

PREFIX = "rl_"


class PrometheusSink:
    """Serves the newest report from a thread of its own: one gauge for each number."""

    def __init__(self, host: str, port: int, run: str, env: str) -> None:
        self._run = {"run": run, "env": env}
        self._numbers: dict[str, float] = {}
        registry = CollectorRegistry()
        registry.register(self)
        self._server, self._thread = start_http_server(port, host, registry)

    def collect(self) -> Iterator[Metric]:
        """Called at each request: `time_shares/update` becomes the gauge `rl_time_shares_update`."""
        yield InfoMetricFamily(PREFIX + "run", "The run and its environment.", self._run)
        for name, value in self._numbers.items():
            yield GaugeMetricFamily(PREFIX + re.sub("[^a-zA-Z0-9_]", "_", name), f"{name} of the newest report.", value)

    def write(self, report: Report) -> None:
        self._numbers = flat_numbers(report)

    def episode(self, row: Episode) -> None:
        pass

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def check_address(host: str, port: int) -> None:
    """Raise UsageError if no server can listen there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((host, port), family=family).close()
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno != errno.EADDRNOTAVAIL:
            raise UsageError(
                f"--metrics_port={port} at --metrics_host={host} cannot be opened ({error.strerror}); "
                "choose a free port."
            ) from None
        raise UsageError(
            f"--metrics_host={host} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all."
        ) from None
