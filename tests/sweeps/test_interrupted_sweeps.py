"""Sweeps and runs that are interrupted or killed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from machine.stop_signals import SAME_SIGNAL_SECONDS
from option_flags import OPTIONS
from sweeps.job import Job
from sweeps.runner import StopPacing
from tests.sweeps.fake_sweeps import (
    FAKE,
    ROOT,
    command,
    interrupt,
    is_running,
    rows,
    run_sweep,
    start_sweep,
    starts,
    when,
)

pytestmark = pytest.mark.slow


def test_an_interrupted_sweep_continues_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.7}, "b": {"gamma": 0.6}, "c": {"gamma": 0.8}}})
    b, c = folder / "b_seed1", folder / "c_seed1"
    meanwhile: list[str] = []

    def look_and_interrupt() -> None:
        meanwhile.extend(row["status"] for row in rows(folder).values())
        interrupt()

    when(lambda: is_running(b), look_and_interrupt)
    assert run_sweep(words) == 0
    assert meanwhile == ["done", "running", "waiting"], "the table is written while the sweep runs"
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("resume with: python multi_train.py --sweep=")
    assert [row["status"] for row in rows(folder).values()] == ["done", "stopped", "waiting"]
    assert not c.exists()

    (b / "go").touch()
    assert run_sweep(words) == 0
    assert "1 of 3 runs are done already" in capsys.readouterr().out
    assert starts(b) == [["train"], ["train_w_load", str(b / "Game_1")]]
    assert [row["status"] for row in rows(folder).values()] == ["done"] * 3
    assert rows(folder)["b_seed1"]["folder"] == str(b / "Game_2")

    assert run_sweep([*words[:-1], "--environment_max_steps=3000"]) == 0
    assert starts(c)[-1] == ["train_w_load", str(c / "Game_1")], "with more steps, a finished run continues"


def test_a_run_is_done_at_its_mean_return(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"flags": {"stop_at_return": 5, "gamma": 0.7}})
    run = folder / "run_seed1"
    for _ in range(2):
        assert run_sweep(words) == 0
        assert [(row["status"], row["agent_steps"]) for row in rows(folder).values()] == [("done", "500")]
    assert starts(run) == [["train"]]
    assert "1 of 1 runs are done already" in capsys.readouterr().out
    assert run_sweep([*words, "--stop_at_return=6"]) == 0
    assert starts(run)[1:] == [["train_w_load", str(run / "Game_1")]], "with a higher mean, it continues"


def test_ends_that_the_sweep_no_longer_sets_are_not_inherited(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"flags": {"gamma": 0.7}})
    assert run_sweep([*words, "--stop_at_return=5"]) == 0
    assert [row["agent_steps"] for row in rows(folder).values()] == ["500"]
    assert run_sweep(words) == 0
    assert [row["agent_steps"] for row in rows(folder).values()] == ["1000"]
    assert run_sweep(words[:-1]) == 0
    steps = str(OPTIONS["environment_max_steps"].default)
    assert [(row["status"], row["agent_steps"]) for row in rows(folder).values()] == [("done", steps)]


def test_a_killed_run_is_reported_and_started_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.6}}})
    a = folder / "a_seed1"
    when(lambda: is_running(a), lambda: Job(a, FAKE).signal(signal.SIGKILL))
    assert run_sweep(words) == 1
    assert "failed with exit code -9" in capsys.readouterr().out
    (a / "go").touch()
    assert run_sweep(words) == 0
    assert starts(a) == [["train"], ["train"]], "it had no checkpoint to continue from"


def test_a_run_whose_sweep_was_killed_is_not_started_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.6}, "b": {"gamma": 0.7}}})
    a = folder / "a_seed1"
    sweep = start_sweep(words)
    while not is_running(a):
        time.sleep(0.01)
    assert run_sweep(words) == 2, "two sweeps must not share a folder"
    assert "is in use by another multi_train.py" in capsys.readouterr().err
    sweep.kill()
    sweep.wait()
    state = folder / "sweep.json"
    state.write_text(state.read_text().replace("running", "waiting"))
    when(lambda: "running" in state.read_text(), (a / "go").touch)
    assert run_sweep(words) == 0
    assert "a_seed1  is running already; waiting for it" in capsys.readouterr().out
    assert starts(a) == [["train"]]
    assert [row["status"] for row in rows(folder).values()] == ["done", "done"]


def test_a_run_whose_sweep_was_killed_can_be_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.6}}})
    a = folder / "a_seed1"
    sweep = start_sweep(words)
    while not is_running(a):
        time.sleep(0.01)
    sweep.kill()
    sweep.wait()
    state = folder / "sweep.json"
    state.write_text(state.read_text().replace("running", "waiting"))
    when(lambda: "running" in state.read_text(), interrupt)
    assert run_sweep(words) == 0
    assert rows(folder)["a_seed1"]["status"] == "stopped"
    assert (a / "Game_1" / "metrics.jsonl").exists()


def test_a_run_that_is_not_a_child_is_found_however_its_folder_is_spelled(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    program = tmp_path / "program.py"
    program.write_text("import time\nprint('done 0', flush=True)\ntime.sleep(200)\n")
    started = Job(tmp_path / "link" / ".." / "link" / "a", program)
    assert started.start({})
    while not is_running(started.folder):
        time.sleep(0.01)
    Job(tmp_path / "there" / "a", program).signal(signal.SIGKILL)
    while started.is_running:
        time.sleep(0.01)
    assert started.exit_code == -signal.SIGKILL


def test_the_folder_of_a_sweep_has_one_spelling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    own, *_ = command(tmp_path / "sweep", {})
    assert run_sweep([own, f"--sweep_dir={tmp_path}/link/../link/sweep"], tmp_path / "nothing.py") == 1
    assert capsys.readouterr().out.startswith(f"1 runs, 1 at once, in {tmp_path}/there/sweep\n")


def test_a_request_to_save_does_not_kill_a_run_that_is_starting(tmp_path: Path) -> None:
    """Until main.py handles SIGUSR1."""
    program = tmp_path / "program.py"
    program.write_text("import signal\nprint(signal.getsignal(signal.SIGUSR1).name)\n")
    before = signal.getsignal(signal.SIGUSR1)
    job = Job(tmp_path / "run", program)
    assert job.start({})
    while job.is_running:
        time.sleep(0.01)
    assert job.new_log_lines() == ["SIG_IGN"]
    assert signal.getsignal(signal.SIGUSR1) == before


def test_two_stop_requests_at_once_are_forwarded_as_two_signals() -> None:
    """main.py counts signals within SAME_SIGNAL_SECONDS as one."""
    pacing = StopPacing()
    assert not pacing.is_due(0, 99.0)
    sent = [now for now in (100.0, 100.2, 100.4, 101.2, 101.4, 110.0) if pacing.is_due(2, now)]
    assert sent == [100.0, 101.2]
    assert sent[1] - sent[0] > SAME_SIGNAL_SECONDS


def test_a_real_run_is_interrupted_and_continues(tmp_path: Path) -> None:
    """The sweep starts the real main.py."""
    small = {"worker_count": 1, "envs_per_worker": 2, "batch_size": 2, "r_f_steps": 5, "console_period": 0.2}
    folder = tmp_path / "sweep"
    own = command(folder, {"flags": small})[:2]
    words = [sys.executable, "multi_train.py", *own]
    endless = subprocess.Popen([*words, "--environment_max_steps=100000000"], cwd=ROOT, stdout=subprocess.PIPE)
    assert endless.stdout is not None
    assert any(b"entropy 1." in line for line in endless.stdout), "it has made an update"
    endless.send_signal(signal.SIGINT)
    rest = endless.communicate(timeout=200)[0].decode()
    assert endless.returncode == 0, rest
    assert rest.splitlines()[-1] == (
        f"resume with: python multi_train.py {own[0]} {own[1]} --environment_max_steps=100000000"
    )
    (row,) = rows(folder).values()
    assert row["status"] == "stopped"
    enough = int(row["agent_steps"]) + 50
    ended = subprocess.run([*words, f"--environment_max_steps={enough}"], cwd=ROOT, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (row,) = rows(folder).values()
    assert (row["status"], row["agent_steps"]) == ("done", str(enough))


def test_a_run_that_continues_tells_no_old_lines_of_its_log(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('new')\n")
    job = Job(tmp_path / "run", program)
    job.log.write_text("old\n")
    assert job.start({})
    while job.is_running:
        time.sleep(0.01)
    assert (job.new_log_lines(), job.new_log_lines()) == (["new"], [])
