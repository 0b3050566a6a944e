"""The peers of the benchmark `peers`, and a virtual environment for each."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.runs import ROOT

INSTALLED = "installed.txt"  # written last: what a complete environment holds
PROGRAMS = "tests.benchmarks.peer_programs"


class PeerError(RuntimeError):
    """A peer cannot be installed or run."""


@dataclass(frozen=True)
class Peer:
    """Another platform: its name on the command line and in tables, its program, its packages besides torch."""

    name: str
    title: str
    program: str
    requirements: tuple[str, ...]


PEERS = (
    Peer(
        "sample_factory",
        "Sample Factory",
        f"{PROGRAMS}.sample_factory_atari",
        # Sample Factory needs an older Gymnasium and an older numpy.
        ("sample-factory==2.1.1", "gymnasium==0.29.1", "ale-py==0.12.1", "numpy==1.26.4", "opencv-python==4.11.0.86"),
    ),
    Peer(
        "rllib",
        "RLlib IMPALA",
        f"{PROGRAMS}.rllib_impala",
        # RLlib names its Gymnasium itself.
        (
            "ray[rllib]==2.60.0",
            "gymnasium==1.2.2",
            "ale-py==0.12.1",
            "numpy==2.4.6",
            "opencv-python-headless==5.0.0.93",
        ),
    ),
    Peer("envpool", "EnvPool PPO", f"{PROGRAMS}.envpool_ppo", ("envpool==1.2.5", "gymnasium==1.4.0", "numpy==2.4.6")),
)


def torch_requirement() -> str:
    """The line of our own requirements: all arms compute with the same torch."""
    found = re.search(r"^torch==[\d.]+", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found.group()


def make_environment(peer: Peer, folder: Path) -> Path:
    """The interpreter of the peer's environment, which is made if it does not exist with these very packages."""
    place = folder / peer.name
    python, installed = place / "bin" / "python", place / INSTALLED
    torch = torch_requirement()
    content = "\n".join([torch, *peer.requirements]) + "\n"
    if installed.exists() and installed.read_text(encoding="utf-8") == content:
        return python
    print(f"making the environment of {peer.title} in {place} (a few minutes)", flush=True)
    shutil.rmtree(place, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(place)])
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    _run([*pip, torch])  # alone and first, so that no other package chooses a build of it
    chosen = torch_version(python)
    constraints = place / "constraints.txt"
    constraints.write_text(torch + "\n", encoding="utf-8")
    _run([*pip, "--constraint", str(constraints), *peer.requirements])
    found = torch_version(python)
    if found != chosen:
        raise PeerError(f"the packages of {peer.title} replaced torch {chosen} by {found}")
    installed.write_text(content, encoding="utf-8")
    return python


def torch_version(python: Path) -> str:
    """The build of torch that an environment has."""
    question = "import importlib.metadata; print(importlib.metadata.version('torch'))"
    return _run([str(python), "-c", question]).strip()


def _run(words: Sequence[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerError(f"{' '.join(words)} ended with code {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout
