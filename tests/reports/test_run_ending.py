"""The last lines of a run."""

from pathlib import Path

import pytest

from reports.run_summary import RunEnd, run_ending

END = RunEnd(
    folder=Path("results/run"),
    finished=True,
    agent_steps=1000,
    steps_left=False,
    frames=4000,
    updates=10,
    updates_made=10,
    seconds=5.0,
    return_mean=1.0,
    goal=None,
    return_window=100,
    games_without_score=0,
    steps_to_learn=160,
    saving_seconds=0.1,
    has_saved=True,
    bottleneck="",
    watt_hours={},
)


@pytest.mark.parametrize(
    ("watt_hours", "line"),
    [
        ({}, None),
        ({"cpu": 1234.56}, "energy 1,234.6 Wh (CPU)"),
        ({"cpu": 12.34, "gpu": 45.61}, "energy 12.3 Wh (CPU) + 45.6 Wh (GPU)"),
    ],
)
def test_the_energy_is_shown_where_it_is_measured(watt_hours: dict[str, float], line: str | None) -> None:
    lines = [line for line in run_ending(END._replace(watt_hours=watt_hours)) if "Wh" in line]
    assert lines == ([line] if line else [])
