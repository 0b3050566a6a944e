"""Lines of a file that grows."""

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from dashboard.growing_file import LONGEST_LINE, GrowingFile


def number(line: bytes) -> int | None:
    return None if line == b"header" else int(line)


def growing(path: Path, most: int = 4000, most_bytes: int = 10**6) -> GrowingFile[int]:
    return GrowingFile(path, number, most=most, most_bytes=most_bytes)


def test_only_complete_lines_are_read_and_new_ones_are_added(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_text("header\n1\n2\n3")
    file = growing(path)
    assert file.refresh() and file.rows == [1, 2]
    assert not file.refresh()
    with path.open("a") as appended:
        appended.write("4\n5\n")
    assert file.refresh() and file.rows == [1, 2, 34, 5]
    assert file.broken == 0


def test_broken_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_text("1\nnonsense\n\n2\n")
    file = growing(path)
    file.refresh()
    assert (file.rows, file.broken) == ([1, 2], 1)


def test_json_of_thousands_of_brackets_is_a_broken_line(tmp_path: Path) -> None:
    path = tmp_path / "brackets"
    path.write_text("[" * 100_000 + "\n" + "[1]\n")
    file: GrowingFile[object] = GrowingFile(path, json.loads)
    file.refresh()
    assert (file.rows, file.broken) == ([[1]], 1)


def test_a_line_that_no_run_writes_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(b"0" * (9 * LONGEST_LINE) + b"\n7\n")
    longest = 0

    def measured(line: bytes) -> int:
        nonlocal longest
        longest = max(longest, len(line))
        return int(line)

    file = GrowingFile(path, measured, most_bytes=10**9)
    file.refresh()
    assert file.rows[-1] == 7 and file.broken >= 1
    assert longest < 9 * LONGEST_LINE


def test_a_missing_file_has_no_rows_and_a_deleted_one_loses_them(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    file = growing(path)
    assert not file.refresh() and file.rows == []
    path.write_text("1\n")
    assert file.refresh() and file.rows == [1]
    path.unlink()
    assert file.refresh() and file.rows == []


@pytest.mark.parametrize("replace", [True, False], ids=["replaced", "shortened"])
def test_a_file_that_begins_anew_is_read_anew(tmp_path: Path, replace: bool) -> None:
    path = tmp_path / "numbers"
    path.write_text("1\n2\n3\n")
    file = growing(path)
    file.refresh()
    if replace:
        (tmp_path / "other").write_text("8\n9\n10\n11\n")
        os.replace(tmp_path / "other", path)
        assert file.refresh() and file.rows == [8, 9, 10, 11]
    else:
        path.write_text("8\n")
        assert file.refresh() and file.rows == [8]


def test_of_many_lines_some_are_kept_evenly_and_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_text("".join(f"{i}\n" for i in range(1003)))
    file = growing(path, most=100)
    file.refresh()
    rows = file.rows
    assert len(rows) <= 201
    assert rows[0] == 0 and rows[-1] == 1002
    distances = {b - a for a, b in pairwise(rows[:-1])}
    assert len(distances) == 1


def test_a_huge_file_is_read_at_some_places_only(tmp_path: Path) -> None:
    """Evenly spaced whole lines and the end; then it grows like any other."""
    path = tmp_path / "numbers"
    path.write_text("".join(f"{i:09}\n" for i in range(100_000)))
    parsed = 0

    def counted(line: bytes) -> int:
        nonlocal parsed
        parsed += 1
        return int(line)

    file = GrowingFile(path, counted, most=50, most_bytes=1000)
    file.refresh()
    assert parsed < 200 and file.broken == 0 and file.sampled
    assert file.rows == sorted(set(file.rows))
    assert file.rows[0] < 3 * 100_000 / 50 and file.rows[-1] == 99_999
    with path.open("a") as appended:
        appended.write("000100000\n")
    assert file.refresh() and file.rows[-1] == 100_000
