"""Results folders with what no run writes: pipes, devices, huge lines, odd names, foreign values. Others stay shown."""

import ast
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dashboard.comparison import search_chart, without_curves
from dashboard.results_folder import ResultsFolder
from dashboard.run_list import AT_WORK, FINISHED, UNREADABLE, RunList
from option_flags import OPTIONS
from reports.compare_runs import group_runs
from run_files.growing_file import last_lines
from tests.dashboard.some_runs import NOW, write_run

pytestmark = pytest.mark.timeout(120)  # a pipe would be waited for without end

# The files of a run that a page reads.
FILES = ("config.json", "summary.json", "metrics.jsonl", "episodes.csv", "evaluations.jsonl", "messages.txt")
CHECKED_LINE = 10**11  # bytes


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_huge_line(path: Path) -> None:
    path.touch()
    os.truncate(path, CHECKED_LINE)  # takes no place on the disk


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("make", [make_pipe, make_device, make_huge_line])
def test_a_file_that_cannot_be_read_stops_nobody(tmp_path: Path, name: str, make: Any) -> None:
    write_run(tmp_path / "good")
    odd = write_run(tmp_path / "odd")
    (odd / name).unlink(missing_ok=True)
    make(odd / name)
    results = ResultsFolder(tmp_path)
    states = {row.name: row.state for row in RunList(results).read()[0]}
    assert states == {"good": FINISHED, "odd": UNREADABLE if name == "config.json" else FINISHED}
    data = results.reader(odd)
    data.refresh()
    if make is make_huge_line:
        assert len("".join(last_lines(odd / name, 400))) < 10**6
    else:
        with pytest.raises(OSError, match="not a regular file"):
            last_lines(odd / name, 400)


def test_a_slow_disk_makes_nobody_wait_but_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "run")
    run_list = RunList(ResultsFolder(tmp_path))
    before = run_list.read()
    is_looking, may_go_on = threading.Event(), threading.Event()

    def slow_find(self: ResultsFolder) -> tuple[list[Path], list[Path]]:
        is_looking.set()
        may_go_on.wait(60)
        return [], []

    monkeypatch.setattr(ResultsFolder, "find", slow_find)
    later = time.monotonic() + 100
    monkeypatch.setattr(time, "monotonic", lambda: later)
    looking = threading.Thread(target=run_list.read)
    looking.start()
    assert is_looking.wait(60)
    assert run_list.read() == before
    may_go_on.set()
    looking.join(60)
    assert run_list.read() == ([], [])


@pytest.mark.parametrize("name", [b"Pong_\xff", b"Pong\n1", b'100% "x" <i>', "Püng_1".encode()])
def test_every_name_can_be_shown_and_leads_back_to_its_folder(tmp_path: Path, name: bytes) -> None:
    root = tmp_path / os.fsdecode(b"results\xfe")
    folder = write_run(root / os.fsdecode(name))
    write_run(root / "Pong_2")
    results = ResultsFolder(root)
    names = {row.name for row in RunList(results).read()[0]}
    (shown,) = names - {"Pong_2"}
    assert shown.encode() and shown.isprintable()
    assert results.run(shown) == folder
    (folder / "config.json").unlink()
    with pytest.raises(Exception, match="is not the folder of a run") as refused:
        results.run(shown)
    assert str(refused.value).encode()


def test_text_of_files_can_be_shown(tmp_path: Path) -> None:
    """The command that resumes a run in a folder whose name is not UTF-8."""
    folder = write_run(tmp_path / "run", why="in results/\udcff", results_dir="results/\udcff")
    (row,) = RunList(ResultsFolder(tmp_path)).read()[0]
    data = ResultsFolder(tmp_path).reader(folder)
    data.refresh()
    assert json.dumps([row.why, data.config], ensure_ascii=False).encode()


@pytest.mark.parametrize("value", [[1], "x", True, None, 10**400], ids=lambda value: str(value)[:9])
def test_a_foreign_configuration_leaves_the_comparison_of_the_others(tmp_path: Path, value: Any) -> None:
    """Each option in turn has this value."""
    results = ResultsFolder(tmp_path)
    for place in range(3):
        write_run(tmp_path / f"good{place}", lr=10.0**-place)
    folder = write_run(tmp_path / "odd")
    config = json.loads((folder / "config.json").read_text())
    for name in OPTIONS:
        (folder / "config.json").write_text(json.dumps({**config, "options": {**config["options"], name: value}}))
        rows = [row for row in RunList(results).read()[0] if row.state == FINISHED]
        data = [results.reader(results.path(row.name)) for row in rows]
        for each in data:
            each.refresh()
        groups = group_runs([each.history for each in data])
        assert sum(len(group.runs) for group in groups) == len(rows) >= 3, name
        assert all(group.label is not None for group in groups)
        assert [each.history.return_window for each in data]
        assert without_curves(rows)
        assert search_chart(rows) is not None


def test_a_run_without_reports_has_the_age_of_its_files(tmp_path: Path) -> None:
    write_run(tmp_path / "run", reports=0, status=None, environment_max_steps=10)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "config.json").write_text("{")
    rows = {row.name: row for row in RunList(ResultsFolder(tmp_path)).read()[0]}
    assert rows["run"].state == AT_WORK and rows["foreign"].state == UNREADABLE
    assert all(abs(row.written - NOW) < 1000 for row in rows.values())


def test_no_text_of_others_becomes_an_attribute_of_the_page() -> None:
    """What `props` takes is read as attributes, and a quote in it begins the next one: it takes only constants."""
    for path in (Path(__file__).resolve().parents[2] / "dashboard").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "props":
                assert all(isinstance(argument, ast.Constant) for argument in node.args), f"{path}:{node.lineno}"
