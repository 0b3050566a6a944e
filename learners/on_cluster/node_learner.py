"""The Ray actor that owns one learner on a node; and the checkpoint that is resumed, which not every node may see.

Ray sends this module to the node by value, so it imports nothing of the platform but what is sent in the same way.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import ray

from cluster.guarded_program import GuardedProgram

CHECKPOINTS = "checkpoints"  # in the folder of a run
NUMBERED_CHECKPOINTS = f"checkpoint_{'[0-9]' * 10}.pt"  # as in run_files/run_folder.py
CHUNK = 4 << 20  # bytes of one message
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")  # the network through which learners talk

Call = Callable[..., Any]  # a method of a learner's actor by its name, with its arguments


class Address(NamedTuple):
    """Where the other learners find this one, if it is the first."""

    host: str
    port: int  # which is free
    gpus: str  # those that Ray has reserved, as in CUDA_VISIBLE_DEVICES


class State(NamedTuple):
    exit_code: int | None
    output: bytes  # since the last call
    errors: bytes
    folder: str  # of the run, as soon as it is there; only the first learner tells it


class NodeLearner(GuardedProgram):
    """A process of main.py. It ends, after it has saved, when this actor ends."""

    def __init__(self, checkout: str, uses_gpus: bool, cwd: str) -> None:
        """`cwd` is where the user is. A node without this folder has its own results in its checkout."""
        super().__init__(checkout, uses_gpus, "rl_learner_")
        self._cwd = Path(cwd) if os.access(cwd, os.W_OK | os.X_OK) else self._checkout
        self._output, self._errors, self._news = (self._folder / name for name in ("output", "errors", "news"))
        for file in (self._output, self._errors, self._news):
            file.touch()
        self._bytes_read = {self._output: 0, self._errors: 0}

    def address(self) -> Address:
        host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
            listener.bind((host, 0))
            port = int(listener.getsockname()[1])
        return Address(host, port, os.environ.get("CUDA_VISIBLE_DEVICES", ""))

    def start(
        self, words: list[str], environment: Mapping[str, str], lifeline: str, news: str, seconds_to_end: float
    ) -> None:
        """Start main.py with these words. `lifeline` and `news` are the variables of rank.py."""
        self._start_program(
            ["main.py", *words],
            cwd=self._cwd,
            output=(self._output, self._errors),
            environment={**self._network(), **environment},
            written={news: str(self._news)},
            lifeline=(lifeline, seconds_to_end),
        )

    def _network(self) -> dict[str, str]:
        """The interface with Ray's address of this node; gloo itself would take the address of the host's name."""
        host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        for interface, addresses in psutil.net_if_addrs().items():
            if host in {address.address for address in addresses}:
                return {name: interface for name in INTERFACES if name not in os.environ}
        return {}

    def state(self) -> State:
        code = self._exit_code()
        told = self._news.read_text().splitlines()
        return State(code, self._new_bytes(self._output), self._new_bytes(self._errors), told[-1] if told else "")

    def _new_bytes(self, path: Path) -> bytes:
        with path.open("rb") as file:
            file.seek(self._bytes_read[path])
            content = file.read()
        self._bytes_read[path] += len(content)
        return content

    def newest_checkpoint(self, url: str) -> dict[str, int]:
        return newest_checkpoint(self._cwd / url)

    def read(self, url: str, name: str, offset: int, count: int) -> bytes:
        return read_part(self._cwd / url / name, offset, count)

    def write(self, url: str, name: str, offset: int, content: bytes, is_last: bool) -> None:
        write_part(self._cwd / url / name, offset, content, is_last)


def newest_checkpoint(place: Path) -> dict[str, int]:
    """The files of the checkpoint that --load_model_url means, by their paths below it, with their sizes.

    Empty if there is none. The first file is the checkpoint itself; one with its replays may follow.
    """
    with suppress(OSError):
        if place.is_file():
            return {"": place.stat().st_size}
        folder = place / CHECKPOINTS if (place / CHECKPOINTS).is_dir() else place
        newest = max(folder.glob(NUMBERED_CHECKPOINTS), default=None)
        if newest is not None:
            number = newest.stem.rpartition("_")[2]
            others = sorted(path for path in folder.glob(f"*_{number}.*") if path != newest)
            return {str(path.relative_to(place)): path.stat().st_size for path in (newest, *others)}
    return {}


def read_part(path: Path, offset: int, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(count)


def write_part(path: Path, offset: int, content: bytes, is_last: bool) -> None:
    """Write a part of a file; the parts come in order. The file has its name once all of them are there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("r+b" if offset else "wb") as file:
        file.seek(offset)
        file.write(content)
    if is_last:
        temporary.replace(path)


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
