"""Sweeps and runs that are interrupted or killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from option_flags import OPTIONS
from tests.sweeps.fake_sweeps import (
    FAKE,
    ROOT,
    command,
    interrupt,
    rows,
    run_sweep,
    start_sweep,
    starts,
    statuses,
    wait_until,
    waits,
    when,
)

pytestmark = pytest.mark.slow


def process_of(job_folder: Path) -> psutil.Process:
    """The process of main.py for this folder."""
    word = f"--results_dir={job_folder}"
    return next(one for one in psutil.process_iter(["cmdline"]) if word in (one.info["cmdline"] or ()))


def test_an_interrupted_sweep_continues_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.7}, "b": {"gamma": 0.6}, "c": {"gamma": 0.8}}})
    b, c = folder / "b_seed1", folder / "c_seed1"
    meanwhile: list[str] = []

    def look_and_interrupt() -> None:
        meanwhile.extend(statuses(folder))
        os.kill(os.getpid(), signal.SIGUSR1)
        wait_until((b / "saved_now").exists)
        interrupt()

    when(lambda: waits(b), look_and_interrupt)
    assert run_sweep(words) == 0
    assert meanwhile == ["done", "running", "waiting"], "the table is written while the sweep runs"
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("resume with: python multi_train.py --sweep=")
    assert statuses(folder) == ["done", "stopped", "waiting"]
    assert (b / "saved_now").exists(), "SIGUSR1 goes to the runs"
    assert (b / "signals.txt").read_text() == "SIGTERM" and not c.exists()

    assert run_sweep(words) == 0
    assert "1 of 3 runs are done already" in capsys.readouterr().out
    assert starts(b) == [["train"], ["train_w_load", str(b / "Game_1")]]
    assert statuses(folder) == ["done"] * 3
    assert rows(folder)["b_seed1"]["folder"] == "b_seed1/Game_2"

    assert run_sweep([*words[:-1], "--environment_max_steps=3000"]) == 0
    assert starts(c)[-1] == ["train_w_load", str(c / "Game_1")], "with more steps, a finished run continues"


def test_a_run_is_done_at_its_mean_return(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Later commands that do not set it do not inherit it."""
    folder = tmp_path / "sweep"
    words = command(folder, {"flags": {"gamma": 0.7}})
    run = folder / "run_seed1"
    for _ in range(2):
        assert run_sweep([*words, "--stop_at_return=5"]) == 0
        assert [(row["status"], row["agent_steps"]) for row in rows(folder).values()] == [("done", "500")]
    assert starts(run) == [["train"]]
    assert "1 of 1 runs are done already" in capsys.readouterr().out
    assert run_sweep(words) == 0
    assert starts(run)[1:] == [["train_w_load", str(run / "Game_1")]]
    assert [row["agent_steps"] for row in rows(folder).values()] == ["1000"]
    assert run_sweep(words[:-1]) == 0
    steps = str(OPTIONS["environment_max_steps"].default)
    assert [(row["status"], row["agent_steps"]) for row in rows(folder).values()] == [("done", steps)]


def test_a_killed_run_is_reported_and_started_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.6}}})
    a = folder / "a_seed1"
    when(lambda: waits(a), lambda: process_of(a).kill())
    assert run_sweep(words) == 1
    assert "failed with exit code -9" in capsys.readouterr().out
    assert run_sweep(words) == 0
    assert starts(a) == [["train"], ["train_w_load", str(a / "Game_1")]]


def test_the_runs_of_a_killed_sweep_save_and_the_next_command_continues_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.6}, "b": {"gamma": 0.7}}})
    a = folder / "a_seed1"
    sweep = start_sweep(words)
    wait_until(lambda: waits(a))
    run = process_of(a)
    assert run_sweep(words) == 2, "two sweeps must not share a folder"
    assert "is in use by another multi_train.py" in capsys.readouterr().err
    sweep.kill()
    sweep.wait()
    psutil.wait_procs([run], timeout=60)
    assert (a / "signals.txt").read_text() == "SIGTERM"
    assert '"status": "running"' in (folder / "sweep.json").read_text()
    assert run_sweep(words) == 0
    assert "a_seed1  continues at 500 agent steps" in capsys.readouterr().out
    assert starts(a) == [["train"], ["train_w_load", str(a / "Game_1")]]
    assert statuses(folder) == ["done", "done"]


def test_a_folder_is_in_use_as_long_as_a_run_of_a_killed_sweep_lives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True)\ntime.sleep(200)\n"
    )
    words = command(tmp_path / "sweep", {"runs": {"a": {}}})
    a = tmp_path / "sweep" / "a_seed1"
    sweep = start_sweep(words, program)
    wait_until(lambda: (a / "log.txt").exists() and (a / "log.txt").read_text() == "ready\n")
    run = process_of(a)
    sweep.kill()
    sweep.wait()
    assert run_sweep(words) == 2
    assert "or by runs of one that was killed" in capsys.readouterr().err
    run.kill()
    psutil.wait_procs([run], timeout=60)
    assert run_sweep(words) == 0


def test_two_stop_requests_reach_a_run_as_two_signals(tmp_path: Path) -> None:
    """main.py counts two signals within half a second as one."""
    program = tmp_path / "program.py"
    program.write_text(
        "import signal, time\ntimes = []\nsignal.signal(signal.SIGTERM, lambda *_: times.append(time.monotonic()))\n"
        "print('ready', flush=True)\nwhile len(times) < 2:\n    time.sleep(0.01)\nprint(times[1] - times[0])\n"
    )
    words = command(tmp_path / "sweep", {"runs": {"a": {}}})
    log = tmp_path / "sweep" / "a_seed1" / "log.txt"

    def interrupt_twice() -> None:
        interrupt()
        time.sleep(0.55)  # nearer to each other, the sweep too counts them as one
        interrupt()

    when(lambda: log.exists() and "ready" in log.read_text(), interrupt_twice)
    assert run_sweep(words, program) == 0
    assert float(log.read_text().split()[-1]) > 0.5


def test_a_real_run_is_interrupted_and_continues(tmp_path: Path) -> None:
    """The sweep starts the real main.py."""
    small = {"env": "CartPole-v1", "worker_count": 1, "envs_per_worker": 2, "batch_size": 2, "r_f_steps": 5}
    small |= {"console_period": 0.2, "curves": False}
    folder = tmp_path / "sweep"
    own = command(folder, {"flags": small})[:2]
    words = [sys.executable, "multi_train.py", *own]
    endless = subprocess.Popen([*words, "--environment_max_steps=100000000"], cwd=ROOT, stdout=subprocess.PIPE)
    assert endless.stdout is not None
    assert any(b"entropy 0." in line for line in endless.stdout), "it has made an update"
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


def test_a_run_that_continues_tells_no_old_lines_of_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.7}}})
    (folder / "a_seed1").mkdir()
    (folder / "a_seed1" / "log.txt").write_text("done of an earlier start\n")
    assert run_sweep(words, FAKE) == 0
    out = capsys.readouterr().out
    assert "done 0.0%" in out and "earlier start" not in out
