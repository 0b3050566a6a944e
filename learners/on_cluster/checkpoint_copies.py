"""Brings the checkpoint that is resumed to nodes that do not see it, because they share no folder with its node."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from learners.on_cluster.node_learner import newest_checkpoint, read_part

CHUNK = 4 << 20  # bytes of one message

Call = Callable[..., Any]  # a method of a learner's actor by its name, with its arguments


def copy_checkpoint(url: str, calls: Sequence[Call]) -> None:
    """Copy what --load_model_url means, as far as it is missing, to the nodes of the learners, given by rank.

    It is taken from this machine or from the node that has the newest one. Replays are those of the first learner.
    """
    here = Path.cwd() / url

    def read_here(url: str, name: str, offset: int, count: int) -> bytes:
        return read_part(here / name, offset, count)

    found = [call("newest_checkpoint", url) for call in calls]
    sources: list[tuple[dict[str, int], Call]] = [(newest_checkpoint(here), lambda method, *rest: read_here(*rest))]
    sources += zip(found, calls, strict=True)
    newest, source = max(sources, key=lambda pair: (bool(pair[0]), *pair[0]))
    for rank, (has, call) in enumerate(zip(found, calls, strict=True)):
        for name in list(newest) if rank == 0 else list(newest)[:1]:
            if has.get(name) != newest[name] and call("newest_checkpoint", url).get(name) != newest[name]:
                _copy(url, name, newest[name], source, call)


def _copy(url: str, name: str, size: int, source: Call, target: Call) -> None:
    for offset in range(0, max(size, 1), CHUNK):
        content = source("read", url, name, offset, CHUNK)
        target("write", url, name, offset, content, offset + CHUNK >= size)
