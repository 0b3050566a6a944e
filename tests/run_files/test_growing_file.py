"""Reading text files to which other processes add lines."""

import os
import threading
from pathlib import Path

import pytest

from run_files.growing_file import LONGEST_LINE, NewLines, last_lines
from run_files.metrics import last_report, read_metrics
from run_files.run_folder import read_json


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


@pytest.mark.parametrize("longest", [LONGEST_LINE + 1, 9 * LONGEST_LINE])
def test_a_line_that_no_run_writes_is_left_out(tmp_path: Path, longest: int) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(b"6\n" + b"0" * longest + b"\n7\n")
    lines = NewLines(path)
    assert (list(lines.read()), lines.too_long) == ([b"6", b"7"], 1)


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


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_opened(tmp_path: Path, kind: str) -> None:
    """A pipe that nobody writes to would block its reader, and a device may never end."""
    path = tmp_path / "metrics.jsonl"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    tried = []

    def read_all() -> None:
        for read in (last_report, read_metrics, lambda path: list(NewLines(path).read()), lambda p: last_lines(p, 3)):
            with pytest.raises(OSError, match=r"not a regular file|directory"):
                read(path)
            tried.append(read)
        assert read_json(path) is None

    thread = threading.Thread(target=read_all, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive() and len(tried) == 4


def test_the_last_lines_of_a_log_are_plain_text(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"old\n" * 1000 + b"half\rwhole\r\n\x1b[31mred\x1b[0m \xff\n\nlast\n")
    assert last_lines(log, 3) == ["whole", "[31mred[0m \ufffd", "last"]
    assert len(last_lines(log, 10**6, most_bytes=100)) < 30
