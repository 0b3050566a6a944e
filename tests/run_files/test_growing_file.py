"""Reading text files to which other processes add lines."""

import os
from pathlib import Path

import pytest

from run_files.growing_file import NewLines, last_lines


def test_only_complete_lines_that_are_new_are_read(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    lines = NewLines(log)
    assert lines.read_text() == []
    log.write_bytes(b"first\nsecond\nha")
    assert lines.read_text() == ["first", "second"] and lines.read_text() == []
    with log.open("ab") as file:
        file.write(b"lf \xff\n")
    assert lines.read_text() == ["half \ufffd"]
    skipping = NewLines(log)
    skipping.skip()
    assert list(skipping.read()) == []


@pytest.mark.parametrize("replace", [True, False], ids=["replaced", "shortened"])
def test_a_file_that_begins_anew_is_read_anew(tmp_path: Path, replace: bool) -> None:
    path = tmp_path / "numbers"
    path.write_text("1\n2\n3\n")
    lines = NewLines(path)
    assert len(list(lines.read())) == 3
    (tmp_path / "other").write_text("8\n9\n10\n11\n" if replace else "8\n")
    if replace:
        os.replace(tmp_path / "other", path)
        assert list(lines.read()) == [b"8", b"9", b"10", b"11"]
    else:
        path.write_text("8\n")
        assert list(lines.read()) == [b"8"]
    assert lines.restarts == 1
    path.unlink()
    assert list(lines.read()) == [] and lines.restarts == 2


def test_a_huge_file_is_read_at_some_places_only(tmp_path: Path) -> None:
    """Evenly spaced whole lines and the end; then it grows like any other."""
    path = tmp_path / "numbers"
    path.write_text("".join(f"{i:09}\n" for i in range(100_000)))
    lines = NewLines(path, most_bytes=1000, places=50)
    found = [int(line) for line in lines.read()]
    assert len(found) < 200 and lines.sampled
    assert found == sorted(set(found))
    assert found[0] < 3 * 100_000 / 50 and found[-1] == 99_999
    with path.open("a") as appended:
        appended.write("000100000\n")
    assert list(lines.read()) == [b"000100000"]


def test_the_last_lines_of_a_log_are_plain_text(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"old\n" * 1000 + b"half\rwhole\r\n\x1b[31mred\x1b[0m \xff\n\nlast\n")
    assert last_lines(log, 3) == ["whole", "[31mred[0m \ufffd", "last"]
    assert len(last_lines(log, 10**6, most_bytes=100)) < 30
