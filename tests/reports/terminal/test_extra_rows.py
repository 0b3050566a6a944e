"""The timing of actions on the console."""

from rich.console import Group

from reports.terminal.extra_rows import Timing, timing_rows, timing_text
from tests.reports.terminal.rendering import as_lines

TIMING = {
    "idle_share": 0.0049,
    "action_age_mean": 4.02,
    "action_age_95": 5.0,
    "action_age_max": 12.0,
    "action_interval_mean": 4.0,
    "action_interval_deviation": 0.31,
    "action_interval_max": 9.0,
    "core_seconds_per_1000_frames": 0.344,
    "updates_per_second": 44.23,
}
CLOCK = {
    "missed_share": 0.12,
    "inference_ms_mean": 20.04,
    "inference_ms_max": 81.26,
    "needed_processes_mean": 1,
    "needed_processes_max": 2,
    "lost_decisions": 3,
    "dropped_unrolls": 0,
}


def lines(timing: Timing) -> list[str]:
    rows = timing_rows(timing)
    return as_lines(Group(*rows), 100) if rows else []


def test_delays_in_frames() -> None:
    assert lines(TIMING)[1:] == [
        "every      4.0 frames, deviation 0.3, at most 9",
        "age        4.0 frames, 95% at most 5, all at most 12",
        "idle       0.5% of the frames",
        "cost       0.34 core-seconds for 1,000 frames, 44.2 updates a second",
    ]
    assert timing_text(TIMING) == "an action every 4.0 frames, 4.0 frames old; 0.5% of the frames idle"


def test_the_clock() -> None:
    assert lines({**TIMING, **CLOCK})[4:6] == [
        "late       12% of the frames; 0 unrolls dropped, 3 decisions lost",
        "inference  20.0 ms, at most 81.3; processes needed: 1 by mean, 2 by max",
    ]
    assert timing_text({**TIMING, **CLOCK}).endswith(
        "; 12% late; an inference takes 20.0 ms, at most 81.3; 0 unrolls dropped"
    )


def test_before_the_first_action_and_in_a_game_that_waits() -> None:
    assert "—" in " ".join(lines(dict.fromkeys({**TIMING, **CLOCK})))
    assert lines({}) == []
