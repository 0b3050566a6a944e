import pytest

from workers.realtime.frame_clock import FrameClock


@pytest.mark.parametrize("fps", [60.0, 59.94, 7.0])
def test_there_is_no_drift_over_an_hour(fps: float) -> None:
    """Each frame is played some time after it was due, and the last one of the hour is still due in time."""
    clock = FrameClock(1000.0, fps)
    for k in range(round(3600 * fps)):
        assert clock.due == pytest.approx(1000 + k / fps, abs=1e-9)
        clock.play(clock.due + 0.8 / fps)
    assert clock.missed == 0


def test_frames_that_are_late_are_counted_and_none_is_skipped() -> None:
    clock = FrameClock(0.0, 10.0)
    clock.play(0.0)
    played = []
    while clock.due <= 0.55:  # after a pause of half a second
        played.append(round(clock.due, 9))
        clock.play(0.55)
    assert played == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert clock.missed == 4  # the frame of 0.5 is played before the next one is due
    assert clock.due == pytest.approx(0.6)
