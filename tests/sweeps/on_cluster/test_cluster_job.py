"""The start and the end of a run on a node, without a cluster."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from cluster.nodes import ANSWER_SECONDS
from sweeps.on_cluster import cluster_job
from sweeps.on_cluster.cluster_job import ClusterJob
from sweeps.on_cluster.run_files_transfer import RunFilesTransfer

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
    job = ClusterJob(tmp_path / "job", "main.py", "a", lambda: None, lambda: ended.append(True), print)
    monkeypatch.setattr(job, "_call", fail)
    job.start({})
    wait_for(job)
    assert (job.why_lost, job.exit_code, ended) == (words, None, [True])


def test_a_start_that_fails_takes_no_room(tmp_path: Path) -> None:
    taken: list[bool] = []
    (tmp_path / "job" / "lock").mkdir(parents=True)
    job = ClusterJob(tmp_path / "job", "main.py", "a", lambda: taken.append(True), lambda: None, print)
    with pytest.raises(OSError):
        job.start({})
    assert taken == []


@pytest.mark.parametrize("code_at_once", [True, False])
def test_a_full_disk_here_delays_the_files_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code_at_once: bool
) -> None:
    rounds: list[bool] = []
    states = [] if code_at_once else [None, None]

    def fetch(self: RunFilesTransfer, files: Any, ended: bool) -> None:
        rounds.append(ended)
        if len(rounds) < 4:
            raise FULL_DISK

    job, lines = job_without_ray(tmp_path, monkeypatch, fetch, lambda: states.pop() if states else 0)
    job.start({})
    wait_for(job)
    assert (job.exit_code, job.why_lost, len(rounds)) == (0, "", 4)
    assert lines == ["job: its files cannot be written now (No space left on device)"]


def test_a_run_that_has_ended_does_not_wait_for_the_disk_after_ctrl_c_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the run gets both signals before it has ended."""
    states = [None, None, None]

    def fetch(self: RunFilesTransfer, files: Any, ended: bool) -> None:
        if states:
            job.signal(signal.SIGTERM)
        raise FULL_DISK

    job, _ = job_without_ray(tmp_path, monkeypatch, fetch, lambda: states.pop() if states else 0)
    job.start({})
    wait_for(job)
    assert (job.exit_code, job.why_lost) == (None, "its files could not be written (No space left on device)")


def test_a_run_that_has_ended_waits_for_the_disk_after_one_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[bool] = []

    def fetch(self: RunFilesTransfer, files: Any, ended: bool) -> None:
        rounds.append(ended)
        if len(rounds) < 4:
            raise FULL_DISK

    job, _ = job_without_ray(tmp_path, monkeypatch, fetch, lambda: 0)
    job.signal(signal.SIGTERM)
    job.start({})
    wait_for(job)
    assert (job.exit_code, job.why_lost, len(rounds)) == (0, "", 4)


def test_a_full_disk_of_the_node_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = RayTaskError("read", "a traceback", FULL_DISK).as_instanceof_cause()  # type: ignore[no-untyped-call]
    assert isinstance(error, OSError)

    def fetch(self: RunFilesTransfer, files: Any, ended: bool) -> None:
        raise error

    job, _ = job_without_ray(tmp_path, monkeypatch, fetch, lambda: None)
    job.start({})
    wait_for(job)
    assert job.why_lost.startswith("its node a could not go on with it")


def job_without_ray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetch: Callable[..., None], next_code: Callable[[], int | None]
) -> tuple[ClusterJob, list[str]]:
    """The job, and what it prints."""
    lines: list[str] = []
    job = ClusterJob(tmp_path / "job", "main.py", "a", lambda: None, lambda: None, lines.append)
    answers: dict[str, Callable[[], Any]] = {"folder": lambda: "/there", "state": lambda: (next_code(), {})}
    monkeypatch.setattr(job, "_call", lambda method, *_: answers.get(method, lambda: None)())
    monkeypatch.setattr(ray, "kill", lambda actor: None)
    monkeypatch.setattr(RunFilesTransfer, "fetch", fetch)
    for pause in ("RETRY_SECONDS", "SYNC_SECONDS"):
        monkeypatch.setattr(cluster_job, pause, 0.01)
    return job, lines


def wait_for(job: ClusterJob) -> None:
    deadline = time.monotonic() + 30
    while job.is_running:
        assert time.monotonic() < deadline
        time.sleep(0.01)
