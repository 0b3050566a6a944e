"""What a node is asked before it gets a program: whether it has the same code and the same Python as this machine.

Ray sends this module to the node by value, so it imports nothing of the platform.
"""

import hashlib
import os
import platform
from pathlib import Path

CHECKOUT_VARIABLE = "RL_PLATFORM_CHECKOUT"  # on a node: where its checkout is, if not where it is here
APART = {"tests", "docs", "results", "dashboard"}  # not used by programs that train


def code_version(root: Path) -> str:
    """The hash of all source files that training uses, in the checkout at `root`."""
    digest = hashlib.sha256()
    packages = sorted(file.parent for file in root.glob("*/__init__.py") if file.parent.name not in APART)
    programs = (root / name for name in ("main.py", "option_flags.py"))
    for path in (*programs, *(path for package in packages for path in sorted(package.rglob("*.py")))):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def examine_node(root: str, version: str, python: str) -> tuple[str, str | None]:
    """The checkout of this node, and what is wrong with it as the end of a sentence, or None."""
    checkout = os.environ.get(CHECKOUT_VARIABLE) or root
    own_python = platform.python_version()
    if own_python.split(".")[:2] != python.split(".")[:2]:
        return checkout, f"it has Python {own_python}, and this machine {python}; the same minor version would be right"
    try:
        own_version = code_version(Path(checkout))
    except OSError:
        return checkout, (
            f"it has no checkout of this program at {checkout}; one there, or {CHECKOUT_VARIABLE}=<folder> in the "
            "environment of its ray start, would be right"
        )
    if own_version != version:
        return checkout, (
            f"the code in its {checkout} is another version ({own_version}) than on this machine ({version}); the "
            "same commit would be right"
        )
    return checkout, None
