"""How a run that its node has lost is described, without a cluster."""

import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from cluster.programs.nodes import ANSWER_SECONDS
from sweeps.on_cluster.cluster_job import ClusterJob

FULL_DISK = OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            RayTaskError("state", "a traceback", FULL_DISK),  # type: ignore[no-untyped-call]
            "its node a could not go on with it ([Errno 28] No space left on device)",
        ),
        (GetTimeoutError(), f"its node a did not answer for {ANSWER_SECONDS:g} seconds"),
        (RayError(), "its node a has lost it (RayError)"),
        (FULL_DISK, "its files could not be written (No space left on device)"),
    ],
)
def test_why_a_run_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str) -> None:
    def fail(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(ray, "kill", lambda actor: None)
    ended: list[bool] = []
    job = ClusterJob(tmp_path / "job", "main.py", None, "a", lambda: ended.append(True))
    monkeypatch.setattr(job, "_call", fail)
    job.start({})
    deadline = time.monotonic() + 30
    while job.is_running:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert (job.why_lost, job.exit_code, ended) == (words, None, [True])
