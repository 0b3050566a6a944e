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

from cluster.guarded_program import Change, GuardedProgram, Stamp
from cluster.node_programs import ProgramLostError
from cluster.nodes import Node
from learners.launcher import rank_variables
from learners.on_nodes import LOST, OUTPUT, LearnersOnNodes, copy_checkpoint, learner_needs


def nodes(*cpus_and_gpus: tuple[int, int]) -> list[Node]:
    return [Node(str(index), cpus=cpus, gpus=gpus) for index, (cpus, gpus) in enumerate(cpus_and_gpus)]


@pytest.mark.parametrize(
    ("cluster", "learners", "cpus"),
    [
        (nodes((8, 0), (8, 0), (8, 0)), 3, 8),
        (nodes((8, 0), (8, 0), (8, 0)), 4, 4),
        (nodes((2, 0), (32, 0)), 2, 16),  # both on the large one
        (nodes((0, 0), (1, 0)), 1, 1),
    ],
)
def test_each_learner_gets_as_many_cpus_as_all_can_have(cluster: list[Node], learners: int, cpus: int) -> None:
    assert learner_needs(cluster, learners, "cpu") == [{"CPU": cpus}] * learners


def test_a_node_gets_no_more_learners_than_it_has_gpus() -> None:
    cluster = nodes((16, 2), (64, 0), (1, 1))
    assert learner_needs(cluster, 2, "auto") == [{"CPU": 8, "GPU": 1}] * 2
    assert learner_needs(cluster, 3, "cuda") == [{"CPU": 1, "GPU": 1}] * 3
    assert learner_needs(cluster, 4, "auto") == []
    assert learner_needs(cluster, 4, "cpu") == [{"CPU": 16}] * 4


def test_ranks_are_those_of_torchrun() -> None:
    found = rank_variables(["a", "c", "a"], TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False))
    assert [place["RANK"] for place in found] == ["0", "1", "2"]
    assert [place["LOCAL_RANK"] for place in found] == ["0", "0", "1"]
    assert [place["LOCAL_WORLD_SIZE"] for place in found] == ["2", "1", "2"]
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
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return folders


def save(folder: Path, *names: str) -> None:
    for name in names:
        (folder / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "run" / name).write_bytes(CONTENT)


def copy(nodes: list[Path], url: str = "run") -> list[str]:
    """Copy the checkpoint; which methods of the two nodes were called."""
    called: list[str] = []

    def call(program: GuardedProgram, method: str, *arguments: Any) -> Any:
        called.append(method)
        return getattr(program, method)(*arguments)

    copy_checkpoint(url, [partial(call, GuardedProgram(False, str(node))) for node in nodes[1:]])
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


class Program:
    """In place of a NodeProgram: a learner that is at work and then done, on a node that may be gone."""

    def __init__(self, node: str, is_gone: bool) -> None:
        self.node, self.is_gone, self.has_ended = node, is_gone, False
        self.has_begun = False

    def call(self, method: str, *arguments: Any) -> Any:
        if method != "news":
            return "/folder"
        if self.is_gone:
            raise ProgramLostError(f"its node {self.node} has lost it")
        _, known = arguments
        has_begun, self.has_begun = self.has_begun, True
        said = b"done\n" if has_begun else b"at work\n"
        stamp = Stamp(len(b"at work\ndone\n") if has_begun else len(said), 0, 0)
        changes = [Change(OUTPUT, stamp, 0, said)] if known.get(OUTPUT) != stamp else []
        return 0 if has_begun else None, {OUTPUT}, changes

    def send(self, *_: Any) -> None:
        pass

    def end(self) -> None:
        self.has_ended = True


def test_a_learner_whose_node_is_gone_is_lost(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ray, "wait", lambda *signals, **_: None)
    programs: Any = [Program("a", is_gone=False), Program("b", is_gone=True)]
    room: Any = SimpleNamespace(needs=[{"CPU": 2}, {"CPU": 1}], release=lambda: None)
    with closing(LearnersOnNodes(programs, room)) as started:
        started.start({})
        while None in (codes := started.exit_codes()):
            time.sleep(0.01)
    assert codes == [0, LOST] and all(program.has_ended for program in programs)
    starts = "node a: learner 0 with 2 CPUs\nnode b: learner 1 with 1 CPU\n"
    printed = capfd.readouterr().out.removeprefix(starts)
    lost = "learner 1: its node b has lost it\n"
    assert lost in printed and printed.replace(lost, "") == "at work\ndone\n"
