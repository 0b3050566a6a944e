"""The Ray actor on a node.

Ray sends this class to the node by value, so it imports nothing of the platform before it has found the node's own
checkout and compared it with the learner's.
"""

import asyncio
import importlib.util
import os
import pickle
import platform
import sys
from pathlib import Path
from typing import Any

CHECKOUT_VARIABLE = "RL_PLATFORM_CHECKOUT"  # where a node's checkout is, if not where the learner's is


class NodeActor:
    """Owns the player of one node. All methods are coroutines, so any number of requests can be open."""

    def __init__(self, root: str, version: str, python: str) -> None:
        """The learner's checkout, the version of its code, and its version of Python."""
        self._root, self._version, self._python = root, version, python
        self._player: Any = None
        self._weights_version = -1  # of those that the player has
        self._newer = asyncio.Condition()

    async def prepare(self, spec: bytes, number: int, seed: int, workers: int) -> str | None:
        """Make the player. Returns what is wrong with this node, as the end of a sentence, or None.

        `spec` is a pickled PlayerSpec, which only the right version of the code unpickles.
        """
        return await asyncio.to_thread(self._prepare, spec, number, seed, workers)

    def _prepare(self, spec: bytes, number: int, seed: int, workers: int) -> str | None:
        python = platform.python_version()
        if python.split(".")[:2] != self._python.split(".")[:2]:
            return f"it has Python {python}, and the learner has {self._python}; the same minor version would be right"
        root = self._find_checkout()
        if root is None:
            return (
                f"it has no checkout of this program at {self._root}; one there, or {CHECKOUT_VARIABLE}=<folder> in "
                "the environment of its ray start, would be right"
            )
        version = _version_of(root)
        if version != self._version:
            return (
                f"the code in its {root} is another version ({version}) than the learner's ({self._version}); the "
                "same commit would be right"
            )
        if str(root) in sys.path:
            sys.path.remove(str(root))
        sys.path.insert(0, str(root))
        os.chdir(root)
        # Otherwise each spawned worker would load Ray's main program, and with it all of Ray.
        vars(sys.modules["__main__"]).pop("__file__", None)
        try:
            player = importlib.import_module("cluster.node_player")
            loaded = pickle.loads(spec)
            problem: str | None = player.why_not_playable(loaded, workers)
        except ImportError as error:
            return f"its Python cannot load the program ({error}); pip install -r requirements.txt would be right"
        if problem is None:
            self._player = player.NodePlayer(loaded, number, seed, workers)
        return problem

    def _find_checkout(self) -> Path | None:
        named = os.environ.get(CHECKOUT_VARIABLE)
        candidates = [Path(folder) for folder in (named, self._root, Path.cwd()) if folder]
        return next((folder for folder in candidates if (folder / "cluster" / "code_version.py").exists()), None)

    async def load_weights(self, version: int, weights: Any) -> None:
        """Weights for the next rounds, and for those that wait for them."""
        async with self._newer:  # one at a time: a call that the network repeats may come while the first one runs
            if version > self._weights_version:
                await asyncio.to_thread(self._player.load_weights, version, weights)
                self._weights_version = version
                self._newer.notify_all()

    async def next_round(self, version: int) -> bytes:
        """The bytes of one round, once it is played with weights of this version or newer ones."""
        async with self._newer:
            await self._newer.wait_for(lambda: self._weights_version >= version)
        content: bytes = await asyncio.wrap_future(self._player.request())
        return content

    async def figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = self._player.figures()
        return figures


def _version_of(root: Path) -> str:
    """The version of the code in a checkout that is not loaded yet."""
    spec = importlib.util.spec_from_file_location("code_version_here", root / "cluster" / "code_version.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    version: str = module.code_version(root)
    return version
