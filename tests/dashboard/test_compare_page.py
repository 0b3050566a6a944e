"""The page that compares runs, without a browser: what is read for a choice, and what is drawn after the next one."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nicegui")

from dashboard.compare_page import _Comparison
from dashboard.results_folder import ResultsFolder
from dashboard.run_list import RunList
from tests.dashboard.some_runs import write_run


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
