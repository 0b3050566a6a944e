"""The files of a run between its node and the sweep's folder, without Ray: the node's object is called directly."""

import os
from pathlib import Path

import pytest

pytest.importorskip("ray")

from cluster import guarded_program
from cluster.guarded_program import GuardedProgram
from sweeps.cluster_places import RESULTS, RunFilesTransfer


class Ends:
    """Both ends: the folder `there` of a run on its node, and the folder `here` of the sweep's job."""

    def __init__(self, here: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(temporary))
        self.here = here
        self.node = GuardedProgram(False)
        self.there = Path(self.node.folder()) / RESULTS
        self.there.mkdir()
        self.transfer = RunFilesTransfer(here, lambda method, *arguments: getattr(self.node, method)(*arguments))

    def write(self, name: str, content: bytes) -> None:
        path = self.there / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(".x.tmp")
        temporary.write_bytes(content)
        temporary.replace(path)

    def fetch(self) -> None:
        assert self.transfer.fetch() is None, "it has not even started"


@pytest.fixture
def ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ends:
    here, temporary = tmp_path / "job", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    return Ends(here, monkeypatch, temporary)


def test_growing_files_are_continued(ends: Ends) -> None:
    path = ends.here / "Game_1" / "metrics.jsonl"
    for content in (b"one\ntw", b"one\ntwo\nthree", b"one\ntwo\nthree\n"):
        ends.write("Game_1/metrics.jsonl", content)
        ends.fetch()
        assert path.read_bytes() == content


def test_files_that_change_are_copied_again(ends: Ends) -> None:
    name = "Game_1/checkpoints/best.pt"
    for content in (b"first", b"other"):
        ends.write(name, content)
        ends.fetch()
        assert (ends.here / name).read_bytes() == content
    assert [path.name for path in (ends.here / name).parent.iterdir()] == [Path(name).name]


def test_much_comes_in_several_parts(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_program, "MOST_BYTES", 5)
    for number in range(3):
        ends.write(f"Game_1/checkpoints/checkpoint_000000000{number}.pt", b"four")
    for count in (2, 3, 3):
        ends.fetch()
        assert len(list(ends.here.rglob("*.pt"))) == count


def test_old_checkpoints_are_removed_only_after_newer_ones_have_come(ends: Ends) -> None:
    names = [f"Game_1/checkpoints/checkpoint_000000000{number}.pt" for number in (1, 2)]
    ends.write(names[0], b"first")
    ends.write("Game_1/videos/a.mp4", b"film")
    ends.fetch()
    ends.write(names[1], b"second")
    (ends.there / names[0]).unlink()
    (ends.there / "Game_1/videos/a.mp4").unlink()
    ends.fetch()
    assert all((ends.here / name).exists() for name in names)
    ends.fetch()
    assert [(ends.here / name).exists() for name in names] == [False, True]
    assert (ends.here / "Game_1/videos/a.mp4").exists()


def test_paths_of_the_node_become_those_of_the_sweep_in_text_only(ends: Ends) -> None:
    text = f'{{"go_on": "--load_model_url=results/Game_1", "run": "{ends.there}/Game_0", "results_dir": "results"}}'
    ends.write("Game_1/summary.json", text.encode())
    ends.write("Game_1/checkpoints/checkpoint_0000000001.pt", text.encode())
    ends.write("log.txt", b"it is in results/Game_1, not in /other/results/Game_1\n")
    ends.fetch()
    here = ends.here
    assert (here / "Game_1" / "summary.json").read_text() == (
        f'{{"go_on": "--load_model_url={here}/Game_1", "run": "{here}/Game_0", "results_dir": "results"}}'
    )
    assert (here / "log.txt").read_text() == f"it is in {here}/Game_1, not in /other/results/Game_1\n"
    assert (here / "Game_1/checkpoints/checkpoint_0000000001.pt").read_text() == text


def test_a_run_gets_what_it_continues_from_and_sends_none_of_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, temporary = tmp_path / "job", tmp_path / "temporary"
    temporary.mkdir()
    parent = here / "Game_1"
    (parent / "checkpoints").mkdir(parents=True)
    content = os.urandom(1000)
    for name in ("checkpoint_0000000001.pt", "checkpoint_0000000002.pt", "replays_0000000002.bin", "best.pt"):
        (parent / "checkpoints" / name).write_bytes(content)
    (parent / "config.json").write_text(f'{{"parent": "{here}/Game_0"}}')
    (parent / "metrics.jsonl").write_bytes(b"")
    (parent / "curves.png").write_bytes(b"picture")
    half_copied = parent / "checkpoints" / ".replays_0000000002.bin.0123456789ab.tmp"  # by a sweep that was killed
    half_copied.write_bytes(b"half")
    ends = Ends(here, monkeypatch, temporary)
    ends.transfer.send(parent)
    sent = {str(path.relative_to(ends.there)): path.read_bytes() for path in ends.there.rglob("*") if path.is_file()}
    assert sent == {
        "Game_1/checkpoints/checkpoint_0000000002.pt": content,
        "Game_1/checkpoints/replays_0000000002.bin": content,
        "Game_1/checkpoints/best.pt": content,
    }
    assert not half_copied.exists()
    before = (parent / "config.json").stat()
    ends.write("Game_2/config.json", b"{}")
    ends.fetch()
    assert (parent / "config.json").stat() == before and (here / "Game_2" / "config.json").read_text() == "{}"
