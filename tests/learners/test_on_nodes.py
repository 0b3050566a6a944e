"""Learners on the nodes of a cluster, without Ray: who gets them, what is copied, and nodes that do not answer."""

import time
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

pytest.importorskip("ray")

import ray
from ray.exceptions import RayActorError

from learners import on_nodes
from learners.launcher import rank_variables
from learners.node_learner import NodeLearner, State, newest_checkpoint
from learners.on_nodes import LOST, LearnersOnNodes, Room, SeatedLearner, choose_seats, copy_checkpoint

EQUAL = [Room("a", 8, 8), Room("b", 8, 8), Room("c", 8, 8)]


@pytest.mark.parametrize(
    ("learners", "own", "seats"),
    [
        (2, "b", [("b", 8), ("a", 8)]),
        (3, "c", [("c", 8), ("a", 8), ("b", 8)]),
        (4, "a", [("a", 4), ("a", 4), ("b", 8), ("c", 8)]),
        (2, "a head without CPUs", [("a", 8), ("b", 8)]),
    ],
)
def test_learners_are_spread_and_the_first_is_where_the_user_is(
    learners: int, own: str, seats: list[tuple[str, int]]
) -> None:
    assert choose_seats(EQUAL, learners, own) == seats


def test_a_large_node_gets_more_learners_than_a_small_one() -> None:
    rooms = [Room("small", 2, 2), Room("large", 32, 32)]
    assert choose_seats(rooms, 2, "elsewhere") == [("large", 16), ("large", 16)]
    assert choose_seats(rooms, 2, "small") == [("small", 2), ("large", 32)]


def test_a_node_gets_no_more_learners_than_it_has_gpus() -> None:
    rooms = [Room("a", 16, 2), Room("b", 64, 0), Room("c", 1, 1)]
    assert choose_seats(rooms, 3, "b") == [("a", 8), ("a", 8), ("c", 1)]


def test_ranks_are_those_of_torchrun() -> None:
    found = rank_variables(["a", "a", "c"], TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False))
    assert [place["RANK"] for place in found] == ["0", "1", "2"]
    assert [place["LOCAL_RANK"] for place in found] == ["0", "1", "0"]
    assert [place["LOCAL_WORLD_SIZE"] for place in found] == ["2", "2", "1"]
    assert {place["WORLD_SIZE"] for place in found} == {"3"}
    assert len({(place["MASTER_ADDR"], place["MASTER_PORT"]) for place in found}) == 1


CONTENT = bytes(range(256))
OLD, NEW, REPLAYS = (
    f"checkpoints/{name}" for name in ("checkpoint_0000000100.pt", "checkpoint_0000000200.pt", "r.bin")
)


@pytest.fixture
def here_and_two_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that stand for this machine, and for the nodes of two learners."""
    folders = [tmp_path / name for name in ("here", "first", "other")]
    for folder in folders:
        folder.mkdir()
    monkeypatch.chdir(folders[0])
    return folders


def save(folder: Path, *names: str) -> None:
    for name in names:
        (folder / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "run" / name).write_bytes(CONTENT)


def copy(nodes: list[Path], url: str = "run") -> list[str]:
    """Copy the checkpoint; which methods of the two nodes were called."""
    called: list[str] = []

    def call(node: Path, method: str, url: str, *arguments: Any) -> Any:
        called.append(method)
        actor: Any = SimpleNamespace(_cwd=node)
        return newest_checkpoint(node / url) if not arguments else getattr(NodeLearner, method)(actor, url, *arguments)

    copy_checkpoint(url, [partial(call, node) for node in nodes[1:]])
    return [method for method in called if method != "newest_checkpoint"]


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_node_that_has_no_checkpoint_gets_it(here_and_two_nodes: list[Path], where: int) -> None:
    save(here_and_two_nodes[where], NEW, "checkpoints/checkpoint_good.pt")  # the second is a copy of the user
    save(here_and_two_nodes[2], OLD)  # of an earlier start
    copy(here_and_two_nodes)
    for node in here_and_two_nodes[1:]:
        assert (node / "run" / NEW).read_bytes() == CONTENT
    assert copy(here_and_two_nodes) == []


@pytest.mark.parametrize("where", [0, 1])
def test_one_file_may_be_named(here_and_two_nodes: list[Path], where: int) -> None:
    save(here_and_two_nodes[where], NEW)
    copy(here_and_two_nodes, url=f"run/{NEW}")
    assert all((node / "run" / NEW).read_bytes() == CONTENT for node in here_and_two_nodes[1:])


def test_nothing_is_copied_where_all_see_the_same_folder(here_and_two_nodes: list[Path]) -> None:
    for node in here_and_two_nodes:
        save(node, NEW)
    assert copy(here_and_two_nodes) == []
    assert copy(here_and_two_nodes, url="nowhere") == []


def test_a_learner_whose_node_is_gone_is_lost(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    states = [State(None, b"at work\n", b"", "results/run"), State(0, b"done\n", b"", "results/run")]
    killed: list[str] = []

    def answer(node: str, method: str) -> State:
        if node == "b":
            raise RayActorError
        return states.pop(0)

    monkeypatch.setattr(on_nodes, "call_actor", lambda actor, method: answer(actor.node, method))
    monkeypatch.setattr(on_nodes, "RunState", lambda begun: SimpleNamespace(exchange=lambda *_: []))
    monkeypatch.setattr(ray, "wait", lambda *signals, **_: None)
    monkeypatch.setattr(ray, "kill", lambda actor: killed.append(actor.node))
    calls = SimpleNamespace(remote=lambda *_: None)
    learners = [SeatedLearner(rank, node, SimpleNamespace(node=node, call=calls)) for rank, node in enumerate("ab")]
    unused: Any = None
    with closing(LearnersOnNodes(learners, [], unused)) as started:
        started.watch()
        while None in (codes := started.exit_codes()):
            time.sleep(0.01)
    assert codes == [0, LOST] and killed == ["a", "b"]
    printed = capfd.readouterr().out
    lost = "learner 1: its node b has lost it (RayActorError)\n"
    assert lost in printed and printed.replace(lost, "") == "at work\ndone\n"
