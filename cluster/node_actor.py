"""The Ray actor on a node.

Ray sends this module and node_code.py to the node by value, so they import nothing else of the platform before the
node's own checkout has been found and compared with the learner's.
"""

import asyncio
import importlib
import os
import pickle
import sys
from typing import Any

from cluster.node_code import examine_node


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
        checkout, problem = examine_node(self._root, self._version, self._python)
        if problem is not None:
            return problem
        if checkout in sys.path:
            sys.path.remove(checkout)
        sys.path.insert(0, checkout)
        os.chdir(checkout)
        # Otherwise each spawned worker would load Ray's main program, and with it all of Ray.
        vars(sys.modules["__main__"]).pop("__file__", None)
        try:
            player = importlib.import_module("cluster.node_player")
            loaded = pickle.loads(spec)
            why: str | None = player.why_not_playable(loaded, workers)
        except ImportError as error:
            return f"its Python cannot load the program ({error}); pip install -r requirements.txt would be right"
        if why is None:
            self._player = player.NodePlayer(loaded, number, seed, workers)
        return why

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
