"""Which runs are found, and that no name leads out of the results folder."""

from pathlib import Path

import pytest

from dashboard.results_folder import NotThereError, ResultsFolder
from tests.dashboard.some_runs import write_run, write_sweep


def test_runs_and_sweeps_are_found_at_any_place_but_not_in_runs(tmp_path: Path) -> None:
    single = write_run(tmp_path / "Pong_1")
    write_run(single / "export" / "Inner_1")
    write_sweep(tmp_path / "more" / "sweep", {"a": {}, "b": {}})
    (tmp_path / "notes.txt").write_text("nothing")
    write_run(tmp_path / ".trash" / "Pong_0")
    results = ResultsFolder(tmp_path)
    runs, sweeps = results.find()
    assert {results.name(run) for run in runs} == {"Pong_1", "more/sweep/a/Run_0", "more/sweep/b/Run_1"}
    assert [results.name(sweep) for sweep in sweeps] == ["more/sweep"]


@pytest.mark.parametrize(
    "name", ["../outside", "..", "/etc", "link", "run/../../outside", "missing", "\0", "a" * 5000, "loop"]
)
def test_names_that_lead_out_of_the_folder_or_nowhere_are_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "results"
    write_run(tmp_path / "outside")
    write_run(root / "run")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root / "loop")
    results = ResultsFolder(root)
    with pytest.raises(NotThereError) as refused:
        results.run(name)
    assert "config.json" not in str(refused.value)
    assert [results.name(run) for run in results.find()[0]] == ["run"]


def test_a_link_to_the_results_folder_itself_is_fine(tmp_path: Path) -> None:
    write_run(tmp_path / "real" / "run")
    (tmp_path / "results").symlink_to(tmp_path / "real")
    results = ResultsFolder(tmp_path / "results")
    assert results.run("run").is_dir()
    assert len(results.find()[0]) == 1


def test_folders_of_something_else_are_named_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    results = ResultsFolder(tmp_path)
    with pytest.raises(NotThereError, match=r"folder is not the folder of a run: it has no config\.json\."):
        results.run("folder")
    with pytest.raises(NotThereError, match=r"folder is not the folder of a sweep: it has no sweep\.json\."):
        results.sweep("folder")
