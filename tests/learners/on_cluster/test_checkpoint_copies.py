"""The checkpoint of a resumed run on nodes that share no folder, without Ray: folders stand for nodes."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from learners.on_cluster import node_learner
from learners.on_cluster.node_learner import copy_checkpoint, newest_checkpoint, read_part, write_part

CONTENT = bytes(range(256)) * 10
FILES = ["checkpoints/checkpoint_0000000200.pt", "checkpoints/replays_0000000200.bin"]


class Node:
    """The part of a learner's actor that sees files, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: list[str] = []
        folder.mkdir()

    def call(self, method: str, url: str, *arguments: Any) -> Any:
        place = self.folder / url
        match method:
            case "newest_checkpoint":
                return newest_checkpoint(place)
            case "read":
                return read_part(place / arguments[0], *arguments[1:])
            case "write":
                self.written.append(arguments[0])
                return write_part(place / arguments[0], *arguments[1:])

    def save(self, names: list[str]) -> None:
        for name in names:
            write_part(self.folder / "run" / name, 0, CONTENT, True)

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder / "run")) for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture
def here_and_two_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Node, Node, Node]:
    """This machine, and the nodes of two learners."""
    monkeypatch.setattr(node_learner, "CHUNK", 1000)
    here, first, other = (Node(tmp_path / name) for name in ("here", "first", "other"))
    monkeypatch.chdir(here.folder)
    return here, first, other


def copy(*nodes: Node, url: str = "run") -> None:
    copy_checkpoint(url, [partial(node.call) for node in nodes])


def test_a_node_that_has_no_checkpoint_gets_it(here_and_two_nodes: tuple[Node, Node, Node]) -> None:
    _, first, other = here_and_two_nodes
    first.save(FILES)
    other.save(["checkpoints/checkpoint_0000000100.pt"])  # of an earlier start
    first.save(["checkpoints/checkpoint_good.pt"])  # a copy that the user has made
    copy(first, other)
    assert not first.written
    assert set(other.written) == {FILES[0]}, "the first learner's replays are its own"
    assert (other.folder / "run" / FILES[0]).read_bytes() == CONTENT
    copy(first, other)
    assert len(other.written) == 3, "three parts, and nothing more in the second call"


def test_the_first_learner_gets_its_replays_from_this_machine(here_and_two_nodes: tuple[Node, Node, Node]) -> None:
    here, first, other = here_and_two_nodes
    here.save(FILES)
    copy(first, other)
    assert first.files() == sorted(FILES) and other.files() == FILES[:1]


@pytest.mark.parametrize("where", [0, 1])
def test_one_file_may_be_named(here_and_two_nodes: tuple[Node, Node, Node], where: int) -> None:
    _, first, other = here_and_two_nodes
    here_and_two_nodes[where].save(FILES[:1])
    copy(first, other, url=f"run/{FILES[0]}")
    assert first.files() == other.files() == FILES[:1]


def test_nothing_is_copied_where_all_see_the_same_folder(here_and_two_nodes: tuple[Node, Node, Node]) -> None:
    nodes = here_and_two_nodes
    for node in nodes:
        node.save(FILES)
    copy(*nodes[1:])
    assert not any(node.written for node in nodes)
