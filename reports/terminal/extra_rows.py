"""Rows that only some runs have: nodes of a cluster, timing of games that do not wait, what an environment tells."""

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from reports.number_format import NOTHING_YET, count, decimal, percent
from reports.terminal.cards import ALERT, DIM, heading
from run_files.metrics import JsonValue

Node = Mapping[str, JsonValue]
Timing = Mapping[str, float | None]  # by the names in metrics.jsonl
LABEL_WIDTH = 11


def node_text(nodes: Sequence[Node]) -> str:
    """All nodes in a few words: how many play, their steps a second, lag and bandwidth."""
    playing = [node for node in nodes if node["alive"]]
    lags = [lag for node in playing if (lag := _number(node, "policy_lag")) is not None]
    return (
        f"nodes {len(playing)}: {count(_total(playing, 'steps_per_second'))} steps/s, "
        f"lag {decimal(sum(lags) / len(lags) if lags else None, 1)}, "
        f"{_total(playing, 'received_bytes_per_second') / 1e6:.1f} MB/s in, "
        f"{_total(playing, 'sent_bytes_per_second') / 1e6:.1f} MB/s out"
    )


def node_rows(nodes: Sequence[Node]) -> list[RenderableType]:
    """A heading, and a line for each node; nothing for a run on one machine."""
    if not nodes:
        return []
    grid = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "right", "right", "right", "right"):
        grid.add_column(no_wrap=True, justify=justify)
    for node in nodes:
        figures = [
            f"{node['workers']} workers",
            f"{count(_total([node], 'steps_per_second'))} steps/s",
            f"lag {decimal(_number(node, 'policy_lag'), 1)}",
            f"{_total([node], 'received_bytes_per_second') / 1e6:.1f} MB/s in",
            f"{_total([node], 'sent_bytes_per_second') / 1e6:.1f} out",
        ]
        grid.add_row(Text(str(node["node"]), DIM), *(figures if node["alive"] else [Text("gone", ALERT)]))
    return [heading("nodes"), grid]


def info_rows(told: Mapping[str, float | None]) -> list[RenderableType]:
    """A heading, and what the environment tells in its `info`, in one line; nothing where it tells nothing."""
    if not told:
        return []
    line = Text("  ", no_wrap=True, overflow="ellipsis").join(
        Text.assemble((f"{name} ", DIM), decimal(value)) for name, value in told.items()
    )
    return [heading("environment"), line]


def timing_text(timing: Timing) -> str:
    """The most important figures of the actions' timing in a few words."""
    age, interval = decimal(timing["action_age_mean"], 1), decimal(timing["action_interval_mean"], 1)
    text = f"an action every {interval} frames, {age} frames old; {_share(timing['idle_share'])} of the frames idle"
    if "missed_share" not in timing:
        return text
    return (
        f"{text}; {_share(timing['missed_share'])} late; an inference takes "
        f"{decimal(timing['inference_ms_mean'], 1)} ms, at most {decimal(timing['inference_ms_max'], 1)}; "
        f"{count(timing['dropped_unrolls'] or 0)} unrolls dropped"
    )


def timing_rows(timing: Timing) -> list[RenderableType]:
    """A heading, and a line for each kind of figures; nothing for a game that waits."""
    if not timing:
        return []

    def shown(name: str, decimals: int = 1) -> str:
        return decimal(timing[name], decimals)

    rows = {
        "every": f"{shown('action_interval_mean')} frames, deviation {shown('action_interval_deviation')}, at most "
        f"{_whole(timing['action_interval_max'])}",
        "age": f"{shown('action_age_mean')} frames, 95% at most {_whole(timing['action_age_95'])}, all at most "
        f"{_whole(timing['action_age_max'])}",
        "idle": f"{_share(timing['idle_share'])} of the frames",
    }
    if "missed_share" in timing:
        rows |= {
            "late": f"{_share(timing['missed_share'])} of the frames; {count(timing['dropped_unrolls'] or 0)} unrolls "
            f"dropped, {count(timing['lost_decisions'] or 0)} decisions lost",
            "inference": f"{shown('inference_ms_mean')} ms, at most {shown('inference_ms_max')}; processes needed: "
            f"{_whole(timing['needed_processes_mean'])} by mean, {_whole(timing['needed_processes_max'])} by max",
        }
    rows["cost"] = (
        f"{shown('core_seconds_per_1000_frames', 2)} core-seconds for 1,000 frames, "
        f"{shown('updates_per_second')} updates a second"
    )
    lines = [
        Text.assemble((label.ljust(LABEL_WIDTH), DIM), text, no_wrap=True, overflow="ellipsis")
        for label, text in rows.items()
    ]
    return [heading("actions"), *lines]


def _number(node: Node, name: str) -> float | None:
    value = node[name]
    return value if isinstance(value, int | float) else None


def _total(nodes: Sequence[Node], name: str) -> float:
    return sum(_number(node, name) or 0.0 for node in nodes)


def _share(fraction: float | None) -> str:
    """With a decimal where a whole percentage would be 0."""
    return percent(fraction) if fraction is None or fraction >= 0.095 else f"{fraction:.1%}"


def _whole(value: float | None) -> str:
    return NOTHING_YET if value is None else count(value)
