"""The Ray actor that owns one learner on a node.

Ray sends this module to the node by value, so it imports nothing of the platform but what is sent in the same way.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
import ray

from cluster.guarded_program import GuardedProgram

CHECKPOINTS = "checkpoints"  # in the folder of a run
NUMBERED_CHECKPOINTS = f"checkpoint_{'[0-9]' * 10}.pt"  # as in run_files/run_folder.py
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")  # the network through which learners talk


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

    def gpus(self) -> str:
        """Those that Ray has reserved, as in CUDA_VISIBLE_DEVICES."""
        return os.environ.get("CUDA_VISIBLE_DEVICES", "")

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
        return State(code, self._new_bytes(self._output), self._new_bytes(self._errors), self._news.read_text())

    def _new_bytes(self, path: Path) -> bytes:
        with path.open("rb") as file:
            file.seek(self._bytes_read[path])
            content = file.read()
        self._bytes_read[path] += len(content)
        return content

    def newest_checkpoint(self, url: str) -> str:
        return newest_checkpoint(self._cwd / url)

    def read(self, url: str, name: str) -> bytes:
        return (self._cwd / url / name).read_bytes()

    def write(self, url: str, name: str, content: bytes) -> None:
        """The file has its name once all of it is there."""
        path = self._cwd / url / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_bytes(content)
        temporary.replace(path)


def newest_checkpoint(place: Path) -> str:
    """The path below `place` of the checkpoint that --load_model_url=<place> means; empty if there is none."""
    if place.is_file():
        return "."
    folder = place / CHECKPOINTS if (place / CHECKPOINTS).is_dir() else place
    newest = max(folder.glob(NUMBERED_CHECKPOINTS), default=None)
    return "" if newest is None else str(newest.relative_to(place))
