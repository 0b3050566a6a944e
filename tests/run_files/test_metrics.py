import csv
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.sinks import GuardedSink, SinkList
from run_files.metrics import (
    TAIL_BYTES,
    Episode,
    EpisodesCsvSink,
    JsonLinesSink,
    NewLines,
    Report,
    Sink,
    json_safe,
    last_lines,
    last_report,
)
from tests.full_disk import files_limited_to
from tests.read_metrics import read_metrics

HEADER = "agent_steps,return,length,worker\n"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class RecordingSink(Sink):
    def __init__(self, name: str, log: list[object], fails: bool = False) -> None:
        self.name, self.log, self.fails = name, log, fails

    def write(self, report: Report) -> None:
        self.log.append((self.name, report))

    def episode(self, row: Episode) -> None:
        self.log.append((self.name, row))

    def close(self) -> None:
        self.log.append((self.name, "closed"))
        if self.fails:
            raise OSError("cannot close")


def strict_json(text: str) -> object:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_reports_are_readable_line_by_line_before_the_sink_closes(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    sink = JsonLinesSink(path)
    for update in range(3):
        sink.write({"update": update, "shares": [4, 4], "name": "line\nbreak"})
        lines = path.read_text().splitlines()
        assert len(lines) == update + 1
        assert strict_json(lines[-1]) == {"update": update, "shares": [4, 4], "name": "line\nbreak"}
    sink.close()
    assert [report["update"] for report in read_metrics(path)] == [0, 1, 2]


def test_nan_and_infinity_become_null_at_every_depth(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path / "metrics.jsonl")
    sink.write({"a": math.nan, "b": [1.0, math.inf, {"c": -math.inf}], "d": (2.0, math.nan), "e": None, "f": "nan"})
    sink.close()
    expected = {"a": None, "b": [1.0, None, {"c": None}], "d": [2.0, None], "e": None, "f": "nan"}
    assert strict_json((tmp_path / "metrics.jsonl").read_text()) == expected


def reports(floats: st.SearchStrategy[float]) -> st.SearchStrategy[Report]:
    values = st.recursive(
        st.none() | st.integers() | floats | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
    return st.dictionaries(st.text(), values, max_size=4)


@given(reports(st.floats()))
@pytest.mark.slow
def test_any_report_becomes_strict_json(report: Report) -> None:
    safe = json_safe(report)
    assert strict_json(json.dumps(safe)) == safe


@given(reports(st.floats(allow_nan=False, allow_infinity=False)))
def test_report_of_finite_numbers_is_unchanged(report: Report) -> None:
    assert json_safe(report) == report


def test_a_report_that_is_not_json_leaves_no_part_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    sink = JsonLinesSink(path)
    with pytest.raises(TypeError):
        sink.write({"fine": 1, "not": object()})  # type: ignore[dict-item]
    sink.write({"fine": 2})
    sink.close()
    assert path.read_text() == '{"fine": 2}\n'


def test_episodes_are_csv(tmp_path: Path) -> None:
    path = tmp_path / "episodes.csv"
    sink = EpisodesCsvSink(path)
    assert path.read_text() == "", "the first game decides which columns there are"
    sink.episode(Episode(agent_steps=1200, return_=-20.5, length=800, worker=0))
    sink.episode(Episode(agent_steps=123_456_789, return_=1_234_567.0, length=27_000, worker=11))
    sink.close()
    sink.close()
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["agent_steps", "return", "length", "worker"],
        ["1200", "-20.5", "800", "0"],
        ["123456789", "1234567.0", "27000", "11"],
    ]


def test_what_is_said_of_the_first_game_has_columns(tmp_path: Path) -> None:
    path = tmp_path / "episodes.csv"
    sink = EpisodesCsvSink(path)
    for game in (
        Episode(10, 1.0, 10, 0, {"coins": 3.0, "success": 0.0}),
        Episode(20, 2.0, 10, 1, {"success": 1.0, "late": 5.0}),
        Episode(30, 3.0, 10, 1),
    ):
        sink.episode(game)
    sink.close()
    assert path.read_text().splitlines() == [
        "agent_steps,return,length,worker,coins,success",
        "10,1.0,10,0,3.0,0.0",
        "20,2.0,10,1,,1.0",
        "30,3.0,10,1,,",
    ]
    EpisodesCsvSink(tmp_path / "empty.csv").close()
    assert (tmp_path / "empty.csv").read_text() == HEADER


def test_episodes_reach_the_file_once_a_second_and_at_each_report(tmp_path: Path) -> None:
    path, clock = tmp_path / "episodes.csv", Clock()
    sink = EpisodesCsvSink(path, clock)

    def rows_on_disk() -> int:
        return len(path.read_text().splitlines()[1:])

    for game in range(2_000):  # more than any file buffer holds
        sink.episode(Episode(game, 0.0, 1, 0))
    assert rows_on_disk() == 0
    clock.now += 0.99
    sink.episode(Episode(2_000, 0.0, 1, 0))
    assert rows_on_disk() == 0
    clock.now += 0.01
    sink.episode(Episode(2_001, 0.0, 1, 0))
    assert rows_on_disk() == 2_002
    sink.episode(Episode(2_002, 0.0, 1, 0))
    assert rows_on_disk() == 2_002
    sink.write({})
    assert rows_on_disk() == 2_003
    sink.episode(Episode(2_003, 0.0, 1, 0))
    sink.close()
    assert rows_on_disk() == 2_004


def test_a_sink_list_calls_its_sinks_in_order_and_closes_all() -> None:
    log: list[object] = []
    report: Report = {"update": 1}
    row = Episode(1, 2.0, 3, 4)
    sinks = SinkList(RecordingSink("a", log), RecordingSink("b", log))
    sinks.write(report)
    sinks.episode(row)
    sinks.close()
    assert log == [("a", report), ("b", report), ("a", row), ("b", row), ("a", "closed"), ("b", "closed")]


def test_a_sink_that_fails_to_close_does_not_keep_the_others_open() -> None:
    log: list[object] = []
    with pytest.raises(OSError, match="cannot close"):
        SinkList(RecordingSink("a", log, fails=True), RecordingSink("b", log)).close()
    assert log == [("a", "closed"), ("b", "closed")]


def test_an_empty_sink_list_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sinks = SinkList()
    sinks.write({"update": 1})
    sinks.episode(Episode(1, 2.0, 3, 4))
    sinks.close()
    assert list(tmp_path.iterdir()) == []


# --- A full disk ------------------------------------------------------------------------------------------------------


def make_retrying_sink(folder: Path) -> tuple[GuardedSink, list[str]]:
    announced: list[str] = []
    files = SinkList(JsonLinesSink(folder / "metrics.jsonl"), EpisodesCsvSink(folder / "episodes.csv", Clock()))
    return GuardedSink("metrics and episodes", lambda: files, announced.append, OSError), announced


@pytest.mark.parametrize("room", [0, 7, 40])
def test_full_disk_is_announced_once_and_nothing_is_missing_afterwards(tmp_path: Path, room: int) -> None:
    """The disk accepts a part of a line and refuses the rest."""
    sink, announced = make_retrying_sink(tmp_path)
    for update in range(9):
        if update in {0, 6}:
            sink.write({"update": update})
            sink.episode(Episode(update, 1.0, 2, 3))
            continue
        size = (tmp_path / "metrics.jsonl").stat().st_size
        with files_limited_to(size + room):
            sink.write({"update": update, "more than fits": "x" * 50})
            sink.episode(Episode(update, 1.0, 2, 3))
    sink.write({"update": 9})
    sink.close()
    assert [report["update"] for report in read_metrics(tmp_path / "metrics.jsonl")] == list(range(10))
    rows = [f"{update},1.0,2,3\n" for update in range(9)]
    assert (tmp_path / "episodes.csv").read_text() == HEADER + "".join(rows)
    cannot, can = "metrics and episodes cannot be written", "metrics and episodes can be written again"
    assert [text.split(" (")[0].split(";")[0] for text in announced] == [cannot, can, cannot, can]


def test_episodes_alone_notice_a_full_disk_too(tmp_path: Path) -> None:
    clock, announced = Clock(), list[str]()
    file = EpisodesCsvSink(tmp_path / "episodes.csv", clock)
    sink = GuardedSink("episodes", lambda: file, announced.append, OSError)
    with files_limited_to(len(HEADER) + 3):
        for step in range(3):
            clock.now += 2
            sink.episode(Episode(step, 1.0, 2, 3))
    assert len(announced) == 1
    sink.write({})
    sink.close()
    assert (tmp_path / "episodes.csv").read_text() == HEADER + "0,1.0,2,3\n1,1.0,2,3\n2,1.0,2,3\n"


def test_lines_lost_on_a_full_disk_at_the_end_are_announced(tmp_path: Path) -> None:
    sink, announced = make_retrying_sink(tmp_path)
    sink.write({"update": 0})
    with files_limited_to(20):
        sink.write({"update": 1})
        sink.close()
    assert announced[-1].startswith("metrics and episodes cannot be written")
    assert len(announced) == 2
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"update": 0}]


def test_other_errors_are_raised(tmp_path: Path) -> None:
    sink, announced = make_retrying_sink(tmp_path)
    with pytest.raises(TypeError):
        sink.write({"not": object()})  # type: ignore[dict-item]
    sink.close()
    assert not announced


@pytest.mark.parametrize("size", [10, TAIL_BYTES // 5])
@pytest.mark.parametrize("incomplete", [b"", b'{"update": 9', b"x" * (TAIL_BYTES // 3)])
def test_the_last_report_is_found_from_the_end(tmp_path: Path, size: int, incomplete: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(incomplete)
    assert last_report(path) is None
    lines = [json.dumps({"update": number, "return_mean_100": 0.5, "text": "x" * size}) + "\n" for number in range(5)]
    for count in (1, 2, 5):
        path.write_bytes("".join(lines[:count]).encode() + incomplete)
        assert last_report(path) == read_metrics(path)[-1]


# --- Followed as they grow --------------------------------------------------------------------------------------------


def test_only_complete_lines_that_are_new_are_read(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    lines = NewLines(log)
    assert lines.read_text() == []
    log.write_bytes(b"first\nsecond\nha")
    assert lines.read_text() == ["first", "second"] and lines.read_text() == []
    with log.open("ab") as file:
        file.write(b"lf \xff\n")
    assert lines.read_text() == ["half \ufffd"]


def test_the_last_lines_of_a_log_are_plain_text(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"old\n" * 1000 + b"half\rwhole\r\n\x1b[31mred\x1b[0m \xff\n\nlast\n")
    assert last_lines(log, 3) == ["whole", "red \ufffd", "last"]
    assert len(last_lines(log, 10**6, most_bytes=100)) < 30
