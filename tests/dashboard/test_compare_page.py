"""The page that compares runs, without a browser: what is read for a choice, and what is drawn after the next one."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nicegui")

from dashboard import compare_page
from dashboard.compare_page import _Comparison
from dashboard.results_folder import ResultsFolder
from dashboard.run_list import RunList
from run_files.checkpoint import checkpoint_name
from tests.dashboard.some_runs import append_report, write_interrupted_runs, write_run, write_sweep


def comparison(folder: Path) -> Any:
    for seed in (1, 2):
        write_run(folder / f"run{seed}", seed=seed)
    results = ResultsFolder(folder)
    page: Any = _Comparison(results, RunList(results), names=["run1", "run2"])
    asyncio.run(page._read_rows())
    return page


def test_only_the_figure_that_is_shown_is_kept(tmp_path: Path) -> None:
    page = comparison(tmp_path)
    for metric in ("entropy", "policy_loss"):
        histories, changed = page._histories(metric)
        assert changed and [len(history.curve(metric).x) for history in histories] == [20, 20]
        assert page._histories(metric)[1] is False
        names = {name for data in page._data.values() for name in data.history.names()}
        assert names == {metric, "agent_steps", "frames", "seconds"} and len(page._data) == 2


def test_an_older_choice_is_not_drawn_over_a_newer_one(tmp_path: Path) -> None:
    page = comparison(tmp_path)
    page._metric = SimpleNamespace(value="entropy")
    page._notices = page._status = SimpleNamespace(show=lambda _: None, set_text=lambda _: None)
    drawn: list[str] = []
    page._draw_charts = lambda groups, metric: drawn.append(metric)
    page._show_tables = lambda: None
    read = page._histories

    def choose_another(metric: str) -> Any:
        page._metric.value = "policy_loss"
        return read(metric)

    page._histories = choose_another
    asyncio.run(page._draw())
    assert drawn == []
    asyncio.run(page._draw())
    assert drawn == ["policy_loss"]


def test_parents_take_no_place_among_the_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_page, "MOST_CURVES", 2)
    names = write_interrupted_runs(tmp_path)
    results = ResultsFolder(tmp_path)
    page: Any = _Comparison(results, RunList(results), names=names)
    asyncio.run(page._read_rows())
    assert [row.name for row in page._last_rows] == ["other", "resumed1", "resumed2"]
    histories, _ = page._histories("entropy")
    assert [history.folder.name for history in histories] == ["resumed1", "resumed2"]


def test_each_job_of_a_sweep_counts_once(tmp_path: Path) -> None:
    """Its first start was killed before the first checkpoint."""
    folder = write_sweep(tmp_path / "pong", {"a": {"seed": 1}, "b": {"seed": 2}})
    again = write_run(folder / "a" / "again", final_return=5.0)
    (again / "checkpoints").mkdir()
    (again / "checkpoints" / checkpoint_name(9)).touch()
    results = ResultsFolder(tmp_path)
    page: Any = _Comparison(results, RunList(results), sweep="pong")
    asyncio.run(page._read_rows())
    assert {row.name for row in page._last_rows} == {"pong/a/again", "pong/b/Run_1"}
    assert [(group.label, len(group.runs)) for group in page._groups] == [("2 seeds", 2)]


def test_figures_are_offered_as_they_come(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / name, reports=0, games=0, environment_max_steps=10**6)
    results = ResultsFolder(tmp_path)
    page: Any = _Comparison(results, RunList(results), names=["a", "b"])
    asyncio.run(page._read_rows())
    assert page._read_figures() == ["return_mean"]
    append_report(tmp_path / "b", 1)
    figures = page._read_figures()
    assert figures[0] == "return_mean" and {"entropy", "time_shares/wait"} <= set(figures)
    (tmp_path / "b" / "evaluations.jsonl").write_text('{"agent_steps": 1000, "eval_return_mean": 5.0}\n')
    assert set(page._read_figures()) == {*figures, "eval_return_mean"}
