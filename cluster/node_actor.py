"""The Ray actor on a node, and what a node is asked first: whether it has the same code as this machine.

Ray sends this module to the nodes by value, so it imports nothing of the platform before the node's own checkout has
been found and compared.
"""

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ANSWER = "cluster: "  # begins the line in which a process that tries to connect says what is wrong, if anything
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
    if (own_version := code_version(checkout)) != version:
        return str(checkout), (
            f"the code in its {checkout} is another version ({own_version}) than on this machine ({version}); the "
            "same commit would be right"
        )
    return str(checkout), None


class NodeActor:
    """Owns one object of the node's own code. All methods are coroutines, so any number of calls can be open."""

    def __init__(self, checkout: str, module: str, class_name: str, *arguments: Any) -> None:
        self._checkout, self._module, self._class_name, self._arguments = checkout, module, class_name, arguments
        self._object: Any = None

    async def call(self, method: str, *arguments: Any) -> Any:
        """What a method of the object returns. The first call makes the object, so it also has the errors of that."""
        if self._object is None:
            if self._checkout not in sys.path:
                sys.path.insert(0, self._checkout)
            os.chdir(self._checkout)
            self._object = getattr(importlib.import_module(self._module), self._class_name)(*self._arguments)
        result = getattr(self._object, method)(*arguments)
        return await result if inspect.isawaitable(result) else result
