"""The Ray actor on a node, and what a node is asked first: whether it has the same code as this machine.

Ray sends this module to the nodes by value, so it imports nothing of the platform before the node's own checkout has
been found and compared.
"""

import asyncio
import hashlib
import importlib
import os
import pickle
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CHECKOUT_VARIABLE = "RL_PLATFORM_CHECKOUT"  # on a node: where its checkout is, if not where it is here
APART = {"tests", "docs", "results", "dashboard"}  # not used by programs that train


def code_version(root: Path = ROOT) -> str:
    """The hash of all source files that training uses, in the checkout at `root`."""
    packages = sorted(file.parent for file in root.glob("*/__init__.py") if file.parent.name not in APART)
    paths = [root / "main.py", root / "option_flags.py"]
    paths += [path for package in packages for path in sorted(package.rglob("*.py"))]
    return hash_of_files((path.relative_to(root), path) for path in paths)


def hash_of_files(files: Iterable[tuple[Path, Path]]) -> str:
    """The hash of files, each by a name and a path: of the names and the contents, in this order."""
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(f"{name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def examine_node(root: str, version: str) -> tuple[str, str | None]:
    """The checkout of this node, and what is wrong with it as the end of a sentence, or None.

    `root` and `version` are those of the machine with the command. Ray itself lets no node with another Python in.
    """
    named = os.environ.get(CHECKOUT_VARIABLE)
    places = [Path(named)] if named else [Path(root), Path.cwd()]
    checkout = next((place for place in places if (place / "cluster" / "node_actor.py").exists()), None)
    if checkout is None:
        return root, (
            f"it has no checkout of this program at {named or root}; one there, or {CHECKOUT_VARIABLE}=<folder> in the "
            "environment of its ray start, would be right"
        )
    own_version = code_version(checkout)
    if own_version != version:
        return str(checkout), (
            f"the code in its {checkout} is another version ({own_version}) than on this machine ({version}); the "
            "same commit would be right"
        )
    return str(checkout), None


class NodeActor:
    """Owns the player of one node. All methods are coroutines, so any number of requests can be open."""

    def __init__(self, root: str, version: str) -> None:
        """The learner's checkout, and the version of its code."""
        self._root, self._version = root, version
        self._player: Any = None
        self._weights_version = -1  # of those that the player has
        self._newer = asyncio.Condition()

    async def prepare(self, spec: bytes, seed: int, workers: int) -> str | None:
        """Make the player. Returns what is wrong with this node, as the end of a sentence, or None.

        `spec` is a pickled PlayerSpec, which only the right version of the code unpickles.
        """
        return await asyncio.to_thread(self._prepare, spec, seed, workers)

    def _prepare(self, spec: bytes, seed: int, workers: int) -> str | None:
        checkout, problem = examine_node(self._root, self._version)
        if problem is not None:
            return problem
        sys.path.insert(0, checkout)
        os.chdir(checkout)
        try:
            player = importlib.import_module("cluster.node_player")
            loaded = pickle.loads(spec)
            why: str | None = player.why_not_playable(loaded, workers)
        except ImportError as error:
            return f"its Python cannot load the program ({error}); pip install -r requirements.txt would be right"
        if why is None:
            self._player = player.NodePlayer(loaded, seed, workers)
        return why

    async def load_weights(self, version: int, weights: Any) -> None:
        """Weights for the next rounds, and for those that wait for them."""
        async with self._newer:
            if version > self._weights_version:  # not if the network repeats a call
                self._player.load_weights(version, weights)
                self._weights_version = version
                self._newer.notify_all()

    async def next_round(self, version: int) -> bytes:
        """The bytes of one round, once it is played with weights of this version or newer ones."""
        async with self._newer:
            await self._newer.wait_for(lambda: self._weights_version >= version)
        content: bytes = await self._player.play_round()
        return content

    async def figures(self) -> dict[str, Any]:
        """How the workers are, and what they said since the last call."""
        figures: dict[str, Any] = self._player.figures()
        return figures
