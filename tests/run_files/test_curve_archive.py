"""An archive of curves is written, read and drawn."""

import gzip
import sys
from pathlib import Path

import pytest

from options.rules import UsageError
from run_files.run_reader import read_histories, read_history
from tests.benchmarks import keep_curves
from tests.benchmarks.keep_curves import reduced, write_archive
from tests.reports.some_run import write_run

FIGURES = ["return_mean", "time_shares/update"]


def archive_of(tmp_path: Path) -> Path:
    """Two seeds, kept in one file; the run folders lie beside it."""
    folders = [write_run(tmp_path / "a", lr_scheduler_steps=9), write_run(tmp_path / "b", seed=2, lr_scheduler_steps=9)]
    path = tmp_path / "both.jsonl.gz"
    write_archive(path, [reduced(folder, folder.name, FIGURES) for folder in folders])
    return path


def test_an_archive_keeps_the_curves_of_its_runs(tmp_path: Path) -> None:
    path = archive_of(tmp_path)
    for kept in read_histories(path):
        run = read_history(tmp_path / kept.folder.name)
        for figure in FIGURES:
            for x in ("agent_steps", "seconds"):
                assert kept.curve(figure, x).x.tolist() == [round(number) for number in run.curve(figure, x).x]
                assert kept.curve(figure, x).y.tolist() == pytest.approx(run.curve(figure, x).y.tolist(), rel=1e-4)
        assert kept.options == {name: run.options[name] for name in kept.options}
        assert "results_dir" not in kept.options and kept.options["seed"] in {1, 2}


def test_a_run_is_added_or_replaced_and_the_others_keep_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive_of(tmp_path)
    before = path.read_bytes()
    for words in ([], ["--figures=entropy"], [f"--figures={','.join(FIGURES)}"]):
        monkeypatch.setattr(sys, "argv", ["keep_curves", str(tmp_path / "b"), str(path), *words])
        assert keep_curves.main() == 0
        assert [run.folder.name for run in read_histories(path)] == ["a", "b"]
    assert path.read_bytes() == before


def test_a_run_folder_is_one_history(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    assert [history.folder for history in read_histories(folder)] == [folder]


@pytest.mark.parametrize(
    "content", [None, b"", b"nonsense", gzip.compress(b"{}\n", mtime=0), gzip.compress(b"[1]\n", mtime=0)[:-9]]
)
def test_a_file_that_is_not_an_archive_is_reported_in_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "curves.jsonl.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"curves\.jsonl\.gz .*\.$"):
        read_histories(path)
