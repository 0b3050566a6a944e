"""Cards, curves of block characters, and tables."""

import math

import pytest

from reports.tables import table_lines
from reports.terminal.cards import Card, Fact, Trend, card_rows, card_width, column_count, sparkline
from tests.reports.terminal.rendering import as_lines


@pytest.mark.parametrize(("width", "columns"), [(30, 1), (40, 2), (60, 2), (80, 3), (100, 3), (106, 4), (160, 4)])
def test_cards_side_by_side_fill_the_width_and_never_exceed_it(width: int, columns: int) -> None:
    assert column_count(width) == columns
    assert width - columns < card_width(width, columns, columns) <= width


def test_a_row_of_cards_is_aligned_and_a_narrow_card_has_no_notes() -> None:
    cards = [Card("one", [Fact("steps", "1,000", "of 2k"), Fact("games", "7")]), Card("two", [Fact("mean", "14.5")])]
    (row,) = card_rows(cards, 52, 2)
    assert as_lines(row, 60) == [
        "one ─────────────────────  two ─────────────────────",
        "steps      1,000 of 2k     mean        14.5",
        "games          7",
    ]
    assert [as_lines(row, 60) for row in card_rows(cards, 18, 1)] == [
        ["one ──────────────", "steps      1,000", "games          7"],
        ["two ──────────────", "mean        14.5"],
    ]


def test_a_sparkline_spans_from_the_lowest_to_the_highest_value() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 20) == ["▁▂▃▄▅▆▇█"]
    assert sparkline([3.0, 3.0], 20) == ["▁▁"]
    assert sparkline([], 20, 2) == ["", ""]
    assert sparkline([0, 15], 20, 2) == [" █", "▁█"]
    assert sparkline([0] * 50 + [7] * 50, 4) == ["▁▁██"], "means of many values"


def test_a_trend_keeps_the_whole_history_in_few_samples() -> None:
    trend = Trend(max_samples=8)
    for value in range(100):
        trend.add(float(value))
        trend.add(math.nan)
        trend.add(None)
        assert len(trend.samples) < 8
    distances = {b - a for a, b in zip(trend.samples, trend.samples[1:], strict=False)}
    assert trend.samples[0] == 0 and len(distances) == 1 and 100 - trend.samples[-1] <= max(distances)


def test_a_table_is_aligned_and_never_wraps() -> None:
    rows = [["short", "7", "x" * 300], ["longer name [a]", "1,000", ""]]
    assert table_lines(rows, ["run", "steps", "folder"], right={1}) == [
        f"{'run':<15}  steps  folder",
        "─" * (15 + 2 + 5 + 2 + 300),
        f"{'short':<15}      7  {'x' * 300}",
        "longer name [a]  1,000",
    ]
    assert table_lines(rows, right={1})[0] == f"{'short':<15}      7  {'x' * 300}"
    assert table_lines([], ["run"]) == []
    assert as_lines("text", 20) == ["text"]
