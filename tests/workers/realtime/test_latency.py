"""Latency models: their texts, their means and longest times, and the sentences for texts that are none."""

import math
import pickle
from pathlib import Path

import numpy as np
import pytest

from options.rules import UsageError
from workers.realtime.latency import parse_latency


@pytest.mark.parametrize(
    ("text", "mean", "deviation", "longest"),
    [
        ("fixed:50", 50, 0, 50),
        ("fixed:.5", 0.5, 0, 0.5),
        ("uniform:20:80", 50, 60 / math.sqrt(12), 80),
        ("uniform:7:7", 7, 0, 7),
        ("lognormal:50:0.3", 50, 50 * math.sqrt(math.exp(0.09) - 1), math.inf),
        ("lognormal:50:0", 50, 0, math.inf),
        ("measured:40,50,60,90", 60, math.sqrt(350), 90),
        ("measured:12.5", 12.5, 0, 12.5),
    ],
)
def test_samples_have_the_mean_and_the_deviation_of_the_model(
    text: str, mean: float, deviation: float, longest: float
) -> None:
    model = pickle.loads(pickle.dumps(parse_latency(text)))  # as on its way to another process
    assert model.mean == pytest.approx(mean)
    assert model.longest == longest
    times = model.sample(np.random.default_rng(1), 40_000)
    assert times.shape == (40_000,)
    assert times.mean() == pytest.approx(mean, rel=0.01)
    assert times.std() == pytest.approx(deviation, rel=0.03, abs=1e-9)
    assert times.min() > 0 and times.max() <= longest


@pytest.mark.parametrize("text", ["fixed:5", "uniform:20:80", "lognormal:50:0.3", "measured:4,5"])
def test_a_seed_gives_the_same_times_again(text: str) -> None:
    model = parse_latency(text)
    first, again = (model.sample(np.random.default_rng(3), 50) for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("content", ["10\n20\n30\n", "10, 20,30", " 10 20\r\n30 "])
def test_measured_times_come_from_a_file(tmp_path: Path, content: str) -> None:
    file = tmp_path / "times.txt"
    file.write_text(content)
    model = parse_latency(f"measured:{file}")
    assert (model.mean, model.longest) == (20, 30)
    assert set(model.sample(np.random.default_rng(0), 100)) == {10, 20, 30}


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
        ("uniform:80:20", "the lower time first"),
        ("lognormal:50:4", "SIGMA of at most 3"),
        ("measured:5,abc", '"abc" is in "measured:5,abc"'),
        ("measured:5,,-6", '"-6" is in'),
        ("measured:0", '"0" is in'),
        ("measured:/no/such/file", r"/no/such/file cannot be read \(No such file or directory\)"),
        ("measured:/", r"/ cannot be read \(Is a directory\)"),
    ],
)
def test_what_is_wrong_is_named(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=f"^--inference_latency.*{sentence}.*\\.$"):
        parse_latency(text)


@pytest.mark.parametrize(("content", "sentence"), [(b"", '"" is in'), (b"a b", '"a" is in'), (b"\xff\xfe", "not text")])
def test_a_file_without_times_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "times"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        parse_latency(f"measured:{file}")
