"""Texts of inference times: what they mean, and the sentences for those that mean nothing."""

import math
from pathlib import Path

import pytest

from options.rules import UsageError
from workers.realtime.timing import parse_latency


@pytest.mark.parametrize(
    ("text", "mean", "deviation", "longest"),
    [
        ("fixed:50", 50, 0, 50),
        ("fixed:.5", 0.5, 0, 0.5),
        ("uniform:20:80", 50, 60 / math.sqrt(12), 80),
        ("uniform:7:7", 7, 0, 7),
        ("lognormal:50:0.3", 50, 50 * math.sqrt(math.exp(0.09) - 1), 50 * math.exp(3.29 * 0.3 - 0.09 / 2)),
        ("lognormal:50:0", 50, 0, 50),
        ("measured:40,50,60,90", 60, math.sqrt(350), 90),
        ("measured:12.5", 12.5, 0, 12.5),
    ],
)
def test_times_have_the_mean_and_the_deviation_of_the_text(
    text: str, mean: float, deviation: float, longest: float
) -> None:
    times = parse_latency(text)
    assert times.mean() == pytest.approx(mean)
    assert times.std() == pytest.approx(deviation, rel=0.03, abs=1e-9)
    assert times.min() > 0
    assert times.max() == pytest.approx(longest, rel=0.01)


@pytest.mark.parametrize("content", ["10\n20\n30\n", "10, 20,30", " 10 20\r\n30 "])
def test_measured_times_come_from_a_file(tmp_path: Path, content: str) -> None:
    file = tmp_path / "times.txt"
    file.write_text(content)
    assert parse_latency(f"measured:{file}").tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    "text",
    ["", "50", "fixed", "fixed:", "fixed:0", "fixed:-5", "fixed:5:6", "fixed:abc", "fixed:nan", "fixed:1_0"]
    + ["fixed:600001", "uniform:20", "uniform:0:5", "uniform::", "lognormal:50", "lognormal:0:1"]
    + ["lognormal:50:-1", "measured", "measured:", "normal:50:3", "FIXED:50", "fixed: 50", "fixed:٥"],
)
def test_another_text_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--inference_latency must be fixed:TIME, .* milliseconds .* not \".*\"\.$"):
        parse_latency(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("uniform:80:20", "the lower one first"),
        ("lognormal:50:4", "SIGMA of at most 3"),
        ("measured:5,abc", 'but one is "abc"'),
        ("measured:5,,-6", 'but one is "-6"'),
        ("measured:0", 'but one is "0"'),
        ("measured:/no/such/file", r"/no/such/file cannot be read \(No such file or directory\)"),
        ("measured:/", r"/ cannot be read \(Is a directory\)"),
    ],
)
def test_what_is_wrong_is_named(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=f"^--inference_latency.*{sentence}.*\\.$"):
        parse_latency(text)


@pytest.mark.parametrize(
    ("content", "sentence"), [(b"", 'one is ""'), (b"a b", 'one is "a"'), (b"\xff\xfe", "not text")]
)
def test_a_file_without_times_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "times"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        parse_latency(f"measured:{file}")
