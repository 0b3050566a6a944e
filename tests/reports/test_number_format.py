import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.number_format import VALUE_WIDTH, count, decimal, duration, percent, scientific, score


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
        (0.0, "0.0"),
        (0.97, "0.970"),
        (1.0, "1.00"),
        (-0.0123, "-0.0123"),
        (2e-5, "2e-5"),
        (-20.25, "-20.2"),
        (999.94, "999.9"),
        (999.96, "1,000"),
        (864_000, "864k"),
    ],
)
def test_score(value: float | None, text: str) -> None:
    assert score(value) == text


def test_a_number_that_is_rounded_to_zero_has_no_minus() -> None:
    assert [count(-0.4), score(-0.0), decimal(-1e-9), percent(-0.004)] == ["0", "0.0", "0.0000", "0%"]
    assert [count(-0.6), score(-0.06), decimal(-1e-4), percent(-0.006)] == ["-1", "-0.0600", "-0.0001", "-1%"]
    assert scientific(-0.0) == "0.00e0"


@given(st.floats(-1e99, 1e99))
def test_every_number_fits_its_column(value: float) -> None:
    assert max(len(count(value)), len(score(value)), len(decimal(value))) <= VALUE_WIDTH


@given(st.floats(1e-9, 1.0))
def test_learning_rates_fit_and_keep_three_figures(value: float) -> None:
    text = scientific(value)
    assert len(text) <= VALUE_WIDTH
    assert float(text) == float(f"{value:.3g}")
