"""The picture of the staggering rules: how many processes are enough, and that it is drawn."""

import pytest
from matplotlib.figure import Figure

from tests.benchmarks import staggering_plot
from tests.benchmarks.staggering_plot import LogNormal, draw, simulated, summary


def test_the_summary_says_how_many_processes_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staggering_plot, "PROCESSES", (1, 5, 20))
    monkeypatch.setattr(staggering_plot, "INFERENCES", 12)
    frame, model = 1000 / 60, LogNormal(5000 / 60, 0.0)
    timings = simulated(model, frame, seed=1)
    enough = "act in 99% of the frames with: none more than 20, max 5, mean 5"
    assert summary("1M", model, timings, frame) == f"1M: 83 ms, ⌈mean / frame⌉ = 5; {enough}"
    assert isinstance(draw({"1M": model}, {"1M": timings}, frame), Figure)
