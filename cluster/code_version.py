"""The version of the code: a hash of the source files, by which machines find out whether they have the same.

It imports nothing of the platform, because a node computes it before it loads any of that.
"""

import hashlib
from collections.abc import Container, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
APART = {"tests", "docs", "results", "dashboard", "sweeps"}  # not used by workers


def code_version(root: Path = ROOT) -> str:
    """The hash of all source files that workers may use, in the checkout at `root`."""
    return source_hash(root, ("option_flags.py",), APART)


def source_hash(root: Path, files: Iterable[str], apart: Container[str]) -> str:
    """The hash of these files at the top of a checkout and of all its packages, but for those apart."""
    packages = sorted(file.parent for file in root.glob("*/__init__.py") if file.parent.name not in apart)
    paths = [root / name for name in files]
    paths += [path for package in packages for path in sorted(package.rglob("*.py"))]
    return hash_of_files((path.relative_to(root), path) for path in paths)


def hash_of_files(files: Iterable[tuple[Path, Path]]) -> str:
    """The hash of files, each by a name and a path: of the names and the contents, in this order."""
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(f"{name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
