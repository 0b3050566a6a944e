"""What a node is asked before it gets a part of a run: whether it has the same code and Python as this machine.

Ray sends this module to the node by value, so it imports nothing of the platform.
"""

import hashlib
import os
import platform
from collections.abc import Iterable
from pathlib import Path

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


def examine_node(root: str, version: str, python: str) -> tuple[str, str | None]:
    """The checkout of this node, and what is wrong with it as the end of a sentence, or None.

    `root`, `version` and `python` are those of the machine with the command.
    """
    named = os.environ.get(CHECKOUT_VARIABLE)
    places = [Path(named)] if named else [Path(root), Path.cwd()]
    checkout = next((place for place in places if (place / "cluster" / "node_code.py").exists()), None)
    own_python = platform.python_version()
    if own_python.split(".")[:2] != python.split(".")[:2]:
        return root, f"it has Python {own_python}, and this machine {python}; the same minor version would be right"
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
