"""One learner on a node of a Ray cluster: the object that its actor owns."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
import ray

from cluster.guarded_program import GuardedProgram
from run_files.run_folder import CHECKPOINTS, numbered_checkpoints, write_atomically

END_SECONDS = 60.0  # that a learner has to save and end after its actor has ended
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")  # the network through which learners talk


class State(NamedTuple):
    exit_code: int | None
    output: bytes  # since the last call
    errors: bytes


class NodeLearner(GuardedProgram):
    """A process of main.py. It ends, after it has saved, when its actor ends."""

    def __init__(self, uses_gpus: bool, cwd: str) -> None:
        """`cwd` is where the user is. A node without this folder has its own results in its checkout."""
        super().__init__("rl_learner_", uses_gpus)
        self._cwd = Path(cwd) if os.access(cwd, os.W_OK | os.X_OK) else Path.cwd()
        self._output, self._errors = self._folder / "output", self._folder / "errors"
        self._bytes_read = {self._output: 0, self._errors: 0}

    def gpus(self) -> str:
        """Those that Ray has reserved, as in CUDA_VISIBLE_DEVICES."""
        return os.environ.get("CUDA_VISIBLE_DEVICES", "")

    def start(self, words: list[str], variables: Mapping[str, str]) -> None:
        """Start main.py with these words, and with these environment variables."""
        variables = {**self._network(), **variables}
        self.start_program(["main.py", *words], self._cwd, (self._output, self._errors), variables, END_SECONDS)

    def _network(self) -> dict[str, str]:
        """The interface with Ray's address of this node; gloo itself would take the address of the host's name."""
        host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        for interface, addresses in psutil.net_if_addrs().items():
            if host in {address.address for address in addresses}:
                return {name: interface for name in INTERFACES if name not in os.environ}
        return {}

    def state(self) -> State:
        code = self.exit_code()
        return State(code, self._new_bytes(self._output), self._new_bytes(self._errors))

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
        path = self._cwd / url / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


def newest_checkpoint(place: Path) -> str:
    """The path below `place` of the checkpoint that --load_model_url=<place> means; empty if there is none."""
    if place.is_file():
        return "."
    folder = place / CHECKPOINTS if (place / CHECKPOINTS).is_dir() else place
    return "".join(str(path.relative_to(place)) for path in numbered_checkpoints(folder)[:1])
