"""The newest report at http://<host>:<port>/metrics, for Prometheus."""

import re
import socket
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from options.rules import UsageError
from run_files.metrics import Episode, JsonValue, Report, flat_numbers

PREFIX = "rl_"
NODES, NODE_NAME = "nodes", "node"  # in a report: a list of the nodes of a cluster, and the key of a node's name
NODE_COUNTERS = {"agent_steps", "unrolls_accepted", "unrolls_refused", "restarts"}  # figures that only grow


class PrometheusSink:
    """Serves the newest report from a thread of its own: one gauge for each number.

    The figures of the nodes of a cluster have the label `node`. Those of a node that is no longer in the newest report
    are no longer served.
    """

    def __init__(self, host: str, port: int, run: str, env: str) -> None:
        self._run = {"run": run, "env": env}
        self._numbers: dict[str, float] = {}
        self._nodes: dict[str, dict[str, float]] = {}  # figures of each node by its name
        registry = CollectorRegistry()
        registry.register(self)
        self._server, self._thread = start_http_server(port, host, registry)

    def collect(self) -> Iterator[Metric]:
        """Called at each request: `time_shares/update` becomes the gauge `rl_time_shares_update`."""
        yield InfoMetricFamily(PREFIX + "run", "The run and its environment.", self._run)
        for name, value in self._numbers.items():
            yield GaugeMetricFamily(_metric(name), f"{name} of the newest report.", value)
        yield from self._node_figures()

    def _node_figures(self) -> Iterator[Metric]:
        """`unrolls_refused` of a node becomes the counter `rl_node_unrolls_refused_total`, `workers` a gauge."""
        nodes = self._nodes
        for name in dict.fromkeys(name for figures in nodes.values() for name in figures):
            family = CounterMetricFamily if name in NODE_COUNTERS else GaugeMetricFamily
            metric = family(_metric(f"node_{name}"), f"{name} of a node.", labels=[NODE_NAME])
            for node, figures in nodes.items():
                if name in figures:
                    metric.add_metric([node], figures[name])
            yield metric

    def write(self, report: Report) -> None:
        self._numbers = flat_numbers({name: value for name, value in report.items() if name != NODES})
        self._nodes = _by_node(report.get(NODES))

    def episode(self, row: Episode) -> None:
        pass

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _metric(name: str) -> str:
    return PREFIX + re.sub("[^a-zA-Z0-9_]", "_", name)


def _by_node(nodes: JsonValue) -> dict[str, dict[str, float]]:
    """The finite figures of each node; a node without a name is left out."""
    if not isinstance(nodes, Sequence):
        return {}
    named = [node for node in nodes if isinstance(node, Mapping) and isinstance(node.get(NODE_NAME), str)]
    return {str(node[NODE_NAME]): flat_numbers(node) for node in named}


def check_address(host: str, port: int) -> None:
    """Raise UsageError if no server can listen there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((host, port), family=family).close()
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"--metrics_port={port} of --metrics_host={host} cannot be opened ({getattr(error, 'strerror', error)}); "
            "choose a free port, and an address of this machine: 127.0.0.1, or 0.0.0.0 for all."
        ) from None
