"""What a run says of its own speed."""

import time

import pytest

from replay.trajectory import UnrollSpec
from workers.progress import Progress

SPEC = UnrollSpec(unroll_length=20, frame_shape=(1, 4, 4), frame_stack=1, action_count=2)


def test_a_speed_is_told_once_there_is_time_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    progress = Progress(SPEC, environments_per_worker=1, skipped_frames=4, max_steps=1000)
    speeds = []
    for now, steps in ((3.0, 0), (5.0, 0), (5.005, 320), (5.5, 320), (6.0, 1320), (7.0, 2320), (9.0, 2320)):  # noqa: B007
        progress.agent_steps = steps
        speeds.append(progress.recent_speed())
    assert speeds == [0.0, 0.0, 0.0, 640.0, 1320.0, 1160.0, 580.0]
