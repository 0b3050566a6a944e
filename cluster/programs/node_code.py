"""What a node is asked before it gets a program: whether it has the same code and the same Python as this machine.

Ray sends this module to the node by value, so it imports nothing of the platform but what is sent in the same way.
"""

import os
import platform
from pathlib import Path

from cluster.code_version import source_hash

CHECKOUT_VARIABLE = "RL_PLATFORM_CHECKOUT"  # on a node: where its checkout is, if not where it is here
APART = {"tests", "docs", "results", "dashboard"}  # not used by programs that train


def version_of_programs(root: Path) -> str:
    """The hash of all source files that training uses, in the checkout at `root`."""
    return source_hash(root, ("main.py", "option_flags.py"), APART)


def examine_node(root: str, version: str, python: str) -> tuple[str, str | None]:
    """The checkout of this node, and what is wrong with it as the end of a sentence, or None."""
    checkout = os.environ.get(CHECKOUT_VARIABLE) or root
    own_python = platform.python_version()
    if own_python.split(".")[:2] != python.split(".")[:2]:
        return checkout, f"it has Python {own_python}, and this machine {python}; the same minor version would be right"
    try:
        own_version = version_of_programs(Path(checkout))
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
