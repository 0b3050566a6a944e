"""The other machines of a cluster on the console."""

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from reports.number_format import count, decimal
from reports.terminal.cards import ALERT, DIM, heading
from run_files.metrics import JsonValue

Node = Mapping[str, JsonValue]


def node_text(nodes: Sequence[Node]) -> str:
    """All of them in a few words: how many play, their steps a second, lag and bandwidth."""
    playing = [node for node in nodes if node["alive"]]
    lags = [lag for node in playing if (lag := _number(node, "policy_lag")) is not None]
    received = _total(playing, "received_bytes_per_second")
    return (
        f"nodes {len(playing)}: {count(_total(playing, 'steps_per_second'))} steps/s, "
        f"lag {decimal(sum(lags) / len(lags) if lags else None, 1)}, {received / 1e6:.1f} MB/s in, "
        f"{_total(playing, 'sent_bytes_per_second') / 1e6:.1f} MB/s out"
    )


def node_rows(nodes: Sequence[Node], width: int) -> list[RenderableType]:
    """A heading, and a line for each node; nothing for a run on one machine."""
    if not nodes:
        return []
    grid = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "right", "right", "right", "right"):
        grid.add_column(no_wrap=True, justify=justify)
    for node in nodes:
        if not node["alive"]:
            grid.add_row(Text(str(node["node"]), DIM), Text("gone", ALERT), "", "", "", "")
            continue
        grid.add_row(
            Text(str(node["node"]), DIM),
            f"{node['workers']} workers",
            f"{count(_total([node], 'steps_per_second'))} steps/s",
            f"lag {decimal(_number(node, 'policy_lag'), 1)}",
            f"{_total([node], 'received_bytes_per_second') / 1e6:.1f} MB/s in",
            f"{_total([node], 'sent_bytes_per_second') / 1e6:.1f} out",
        )
    return [heading("nodes", width), grid]


def _number(node: Node, name: str) -> float | None:
    value = node[name]
    return value if isinstance(value, int | float) else None


def _total(nodes: Sequence[Node], name: str) -> float:
    return sum(_number(node, name) or 0.0 for node in nodes)
