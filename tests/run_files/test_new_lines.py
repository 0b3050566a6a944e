"""Reading text files that other processes write."""

from pathlib import Path

from run_files.new_lines import NewLines, last_lines


def test_only_complete_lines_that_are_new_are_read(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    lines = NewLines(log)
    assert lines.read() == []
    log.write_bytes(b"first\nsecond\nha")
    assert lines.read() == ["first", "second"] and lines.read() == []
    with log.open("ab") as file:
        file.write(b"lf \xff\n")
    assert lines.read() == ["half \ufffd"]
    skipping = NewLines(log)
    skipping.skip()
    assert skipping.read_bytes() == b""


def test_the_last_lines_of_a_log_are_plain_text(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"old\n" * 1000 + b"half\rwhole\r\n\x1b[31mred\x1b[0m \xff\n\nlast\n")
    assert last_lines(log, 3) == ["whole", "[31mred[0m \ufffd", "last"]
    assert len(last_lines(log, 10**6, most_bytes=100)) < 30
