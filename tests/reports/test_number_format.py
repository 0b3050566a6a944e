import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.number_format import VALUE_WIDTH, count, duration, formatted, markdown_table, number, percent, table_lines


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (99_999, "99,999"),
        (99_999.6, "100,000"),
        (100_000, "100k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (16_520_000, "16.5M"),
        (200_000_000, "200M"),
        (1.5e9, "1.50B"),
        (1_000_000_015_047_466_156_032, "1.0e21"),
        (-9.996e11, "-1.0e12"),
    ],
)
def test_count(value: float, text: str) -> None:
    assert count(value) == text


def test_count_can_be_shorter() -> None:
    assert [count(value, 10_000) for value in (9_999, 76_923, 99_960)] == ["9,999", "76.9k", "100k"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "—"),
        (math.nan, "—"),
        (math.inf, "—"),
        (0.9, "0m00s"),
        (65, "1m05s"),
        (3599.9, "59m59s"),
        (7380, "2h03m"),
        (363_600, "4d05h"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (0.0, "0.0"),
        (0.97, "0.970"),
        (0.9996, "1.00"),
        (1.0, "1.00"),
        (-0.0123, "-0.0123"),
        (0.00412, "0.00412"),
        (4.12e-4, "4.12e-4"),
        (-4.12e-4, "-4.1e-4"),
        (2e-5, "2.00e-5"),
        (9.996, "10.0"),
        (-20.25, "-20.2"),
        (999.94, "999.9"),
        (999.96, "1,000"),
        (864_000, "864k"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert number(value) == text


def test_figures_have_the_form_that_their_name_asks_for() -> None:
    figures = {"agent_steps": 4_130_000, "max_steps": 76_923, "seconds_left": 65, "idle_share": 0.0049, "entropy": 1.2}
    shown = [formatted(name, value) for name, value in figures.items()]
    assert shown == ["4.13M", "76.9k", "1m05s", "0.5%", "1.20"]
    assert formatted("cpu_workers", 187.4) == "187%" and formatted("cpu_workers", None) == "—"


def test_a_number_that_is_rounded_to_zero_has_no_minus() -> None:
    assert [count(-0.4), number(-0.0), percent(-0.004)] == ["0", "0.0", "0%"]
    assert [count(-0.6), number(-0.06), percent(-0.006)] == ["-1", "-0.0600", "-1%"]


@given(st.floats(-1e99, 1e99))
def test_every_number_fits_its_column(value: float) -> None:
    assert max(len(count(value)), len(number(value))) <= VALUE_WIDTH


@given(st.floats(1e-9, 999))
def test_a_small_number_keeps_three_figures(value: float) -> None:
    assert float(number(value)) == pytest.approx(value, rel=0.0051)


def test_tables_are_aligned_by_the_width_of_characters_on_a_terminal() -> None:
    rows = [["ポン", "1.5"], ["a", "-20.0"]]
    assert table_lines(rows, ["game", "return"], right={1}) == [
        "game  return", "────  ──────", "ポン     1.5", "a      -20.0",
    ]  # fmt: skip
    assert table_lines(rows) == ["ポン  1.5", "a     -20.0"]
    assert table_lines([], ["game"]) == []
    assert markdown_table([["a", "1"]], ["b", "c"], right={1}) == ["| b | c |", "| --- | ---: |", "| a | 1 |"]
