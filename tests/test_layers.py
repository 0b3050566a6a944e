"""Imports go down only, as docs/design.md draws it, and not in a circle."""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DIAGRAM = (ROOT / "docs" / "design.md").read_text(encoding="utf-8").split("## Layers")[1].split("```")[1]
EXCEPTIONS = {("sweeps", "cluster"), ("wrappers", "replay")}


def rows() -> dict[str, int]:
    """The row of each folder and each file at the top, 0 for the highest."""
    boxes = [line[: line.rindex("│")] for line in DIAGRAM.splitlines() if line.startswith("│")]
    return {name.removesuffix(".py"): row for row, box in enumerate(boxes) for name in re.findall(r"\w+(?:\.py)?", box)}


ROWS = rows()


def modules() -> dict[str, Path]:
    files = [path for top in ROWS for path in [ROOT / f"{top}.py", *(ROOT / top).rglob("*.py")] if path.is_file()]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


MODULES = modules()


def imported(path: Path, *, in_functions: bool) -> Iterator[str]:
    """The modules of ours that a file imports. `in_functions`: also those that it loads later."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    later = {part for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if node in later and not in_functions:
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None and node.level == 0, f"{path}: a relative import"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in inner]
        yield from (name for name in names if name in MODULES)


def test_the_diagram_has_every_folder_and_every_program() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert set(ROWS) == folders | {path.stem for path in ROOT.glob("*.py")}


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down_only(module: str) -> None:
    own = module.partition(".")[0]
    for name in imported(MODULES[module], in_functions=True):
        other = name.partition(".")[0]
        assert other == own or ROWS[other] > ROWS[own] or (own, other) in EXCEPTIONS, f"{module} imports {name}"


@pytest.mark.slow
def test_no_modules_need_each_other_to_be_loaded() -> None:
    graph = {name: set(imported(path, in_functions=False)) for name, path in MODULES.items()}
    tuple(TopologicalSorter(graph).static_order())  # an error names a circle
