"""Sweeps: their plans, and how their runs are started and watched, with a small script in place of main.py."""

import csv
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import multi_train
from machine.stop_signals import SAME_SIGNAL_SECONDS
from option_flags import OPTIONS
from options.command_line import given_flags
from options.rules import UsageError
from run_files.checkpoint import checkpoint_name
from sweeps import state as sweep_state
from sweeps import summary as sweep_summary
from sweeps.files import run_folders
from sweeps.job import Job, flag_words
from sweeps.plan import plan_sweep
from sweeps.runner import StopPacing
from tests.sweeps.fake_main import write_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]

ROOT = Path(__file__).resolve().parents[2]
FAKE = Path(__file__).with_name("fake_main.py")
QUEUE = [{"type": "queue", "capacity": 1, "sample_ratio": 1.0}]


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes seconds."""
    monkeypatch.setattr(multi_train, "draw_curves", lambda rows, picture: f"{len(rows)} curves in {picture.name}")


def run_sweep(words: Sequence[str]) -> int:
    return multi_train.main(words, FAKE, poll_seconds=0.01)


def names(definition: dict[str, Any], *words: str) -> list[str]:
    return [run.name for run in plan_sweep(definition, given_flags(words, OPTIONS)).runs]


def command(folder: Path, definition: dict[str, Any], *words: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    path = folder.with_suffix(".json")
    path.write_text(json.dumps(definition))
    return [f"--sweep={path}", f"--sweep_dir={folder}", "--environment_max_steps=1000", *words]


def rows(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "summary.csv").open(newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def starts(place: Path) -> list[list[str]]:
    return [line.split() for line in (place / "starts.txt").read_text().splitlines()]


def is_running(place: Path) -> bool:
    """Whether the run has started and handles signals."""
    log = place / "log.txt"
    return log.exists() and log.read_text().startswith("done ")


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def when(condition: Callable[[], bool], act: Callable[[], None]) -> None:
    """Act in another thread as soon as the condition is true."""

    def wait() -> None:
        while not condition():
            time.sleep(0.01)
        act()

    threading.Thread(target=wait, daemon=True).start()


# --- The plan ---------------------------------------------------------------------------------------------------------


def test_runs_grid_and_seeds_are_multiplied() -> None:
    definition = {"runs": {"a": {}, "b": {"gamma": 0.9}}, "grid": {"lr": [1e-3, 1e-4]}, "seeds": [1, 2]}
    expected = [f"{run}_lr={lr}_seed{seed}" for run in "ab" for lr in (0.001, 0.0001) for seed in (1, 2)]
    assert names(definition) == expected


def test_runs_without_a_name_are_named_after_their_flags() -> None:
    assert names({"runs": [{"lr": 2e-3}, {"replay_parameters": QUEUE}]}) == ["lr=0.002_seed1", "queue_seed1"]
    assert names({}) == ["run_seed1"]
    assert names({"grid": {"env": ["ALE/x", "PongNoFrameskip-v4"][1:]}}) == ["env=PongNoFrameskip-v4_seed1"]


def test_the_command_line_takes_precedence_over_the_sweep_and_the_sweep_over_defaults() -> None:
    definition = {"flags": {"lr": 1e-3, "gamma": 0.9}, "runs": [{"lr": 2e-3, "use_lstm": True}], "seeds": [1, 2]}
    sweep = plan_sweep(definition, given_flags(["--gamma=0.8", "--seed=7"], OPTIONS))
    (run,) = sweep.runs
    flags = run.config.flags()
    assert (flags["lr"], flags["gamma"], flags["use_lstm"], flags["seed"]) == (2e-3, 0.8, True, 7)
    assert flags["batch_size"] == 8
    assert flag_words(run.flags) == ["--lr=0.002", "--gamma=0.8", "--use_lstm", "--seed=7"]


def test_differing_flags_are_those_that_are_not_the_same_in_all_runs() -> None:
    mixed = [{**QUEUE[0], "sample_ratio": 0.5}, {"type": "standard", "capacity": 99, "sample_ratio": 0.5}]
    definition = {
        "flags": {"gamma": 0.9},
        "runs": {"q": {"replay_parameters": QUEUE}, "s": {"replay_parameters": mixed, "lr": 2e-3}},
    }
    sweep = plan_sweep(definition, {})
    differs = [sweep.differing_flags(run) for run in sweep.runs]
    assert differs == ["queue, lr=0.001", "0.5 queue + 0.5 standard (99), lr=0.002"]


def test_the_built_in_sweep_has_four_replays_and_two_seeds() -> None:
    types = [[replay["type"] for replay in run["replay_parameters"]] for run in multi_train.SWEEP["runs"].values()]
    assert types == [["queue"], ["queue", "standard"], ["queue", "attentive"], ["queue", "elite"]]
    assert multi_train.SWEEP["seeds"] == [1, 2]
    sweep = plan_sweep(multi_train.SWEEP, {})
    assert len(sweep.runs) == 8
    elite = sweep.runs[-1].config.replay.replays[1]
    assert (elite.lambda_batch_multiplier, elite.alfa_annealing_factor) == (6, 2.0)
    assert (elite.dist_function, elite.elite_sampling_strategy) == ("ln_norm", "lowest_least_sampled")


@pytest.mark.parametrize(
    ("definition", "words", "sentence"),
    [
        ([], [], "must be an object of name"),
        ({"run": []}, [], 'unknown key "run"'),
        ({"name": "../up"}, [], '"name" must be a word'),
        ({"flags": [1]}, [], '"flags" must be an object'),
        ({"runs": []}, [], '"runs" must be a list'),
        ({"runs": {"a": 1}}, [], '"runs" must be a list'),
        ({"grid": {"lr": 1e-3}}, [], '"grid" must be an object of lists'),
        ({"seeds": [1.5]}, [], '"seeds" must be a list of whole'),
        ({"flags": {"results_dir": "x"}}, [], "results_dir must not be among"),
        ({"grid": {"seed": [1, 2]}}, [], '"seeds" lists them'),
        ({}, ["--op_mode=train"], "--op_mode has no meaning here"),
        ({}, ["--load_model_url=x"], "--load_model_url has no meaning here"),
        ({"runs": [{"lr": 1e-3}, {"lr": -1.0}]}, [], "run lr=-1.0_seed1: --lr must be a number above 0"),
        ({"flags": {"lrr": 1}}, [], "--lrr is not a known flag"),
        ({"flags": {"env": "PingNoFrameskip-v4"}}, [], "--env"),
        ({"grid": {"lr": [1e-3, 1e-4]}}, ["--lr=1"], "are the same"),
        ({"seeds": [1, 1]}, [], "are the same"),
        ({"runs": [{"lr": 1e-3}, {"lr": 1e-3}]}, [], "have the same name"),
        ({"runs": {"a b": {}, "a-b": {"lr": 1e-3}}}, [], "would have the name a-b"),
        ({"grid": {"lr": [1e-3, 1e-4, 1e-3]}}, [], '"grid" has 0.001 twice for lr; give it once.'),
    ],
)
def test_a_wrong_sweep_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], definition: Any, words: list[str], sentence: str
) -> None:
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(definition))
    folder = tmp_path / "sweep"
    assert run_sweep([f"--sweep={path}", f"--sweep_dir={folder}", *words]) == 2
    out, errors = capsys.readouterr()
    assert out == "" and errors.count("\n") == 1 and errors.startswith("multi_train.py: ")
    assert sentence in errors
    assert not folder.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--jobs=0"], "--jobs must be a whole number of at least 1, not 0"),
        (["--jobs=many"], '--jobs must be a whole number of at least 1, not "many"'),
        (["--jobs=" + "9" * 5000], '--jobs must be a whole number of at least 1, not "99'),
        (["--jobs="], '--jobs must be a whole number of at least 1, not ""'),
        (["--jobs"], "--jobs needs a value"),
        (["--sweep="], '--sweep must be a path, not ""'),
        (["--jobs=1", "--jobs", "2"], "--jobs is given twice"),
        (["--sweep=nowhere.json"], "--sweep=nowhere.json cannot be read"),
        (["--sweep=README.md"], "must be a JSON file"),
        (["--batch_sise=3"], "did you mean --batch_size"),
        (["--sweepdir=here"], "--sweepdir is not a known flag; did you mean --sweep_dir?"),
        (["--job=2"], "--job is not a known flag; did you mean --jobs?"),
    ],
)
def test_wrong_flags_are_refused(capsys: pytest.CaptureFixture[str], words: list[str], sentence: str) -> None:
    assert run_sweep(words) == 2
    errors = capsys.readouterr().err
    assert sentence in errors and errors.count("\n") == 1


def test_help_lists_the_flags_of_the_sweep_and_of_main(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_sweep(["--help"]) == 0
    out = capsys.readouterr().out
    assert "--sweep_dir" in out and "--environment_max_steps" in out


# --- The runs -------------------------------------------------------------------------------------------------------


def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"bad": {"gamma": 0.5}, "good": {"gamma": 0.7}}, "seeds": [1, 2]})
    assert run_sweep(words) == 1
    out = capsys.readouterr().out
    assert "failed with exit code 3" in out and "    the last words\n" in out
    assert "go on with: python multi_train.py --sweep=" in out and "4 curves in curves.png" in out
    table = rows(folder)
    assert [row["status"] for row in table.values()] == ["failed", "failed", "done", "done"]
    good = table["good_seed2"]
    assert (good["differs"], good["seed"], good["agent_steps"]) == ("gamma=0.7", "2", "1000")
    assert (good["return_mean"], good["return_max"], good["steps_per_second"]) == ("-2.0", "7.0", "500.0")
    assert Path(good["folder"]) == folder / "good_seed2" / "Game_1"
    state = json.loads((folder / "sweep.json").read_text())["runs"]["bad_seed1"]
    assert (state["exit_code"], state["last_lines"]) == (3, ["done 0.0%  steps 0", "the last words"])

    assert run_sweep(words) == 1
    assert len(starts(folder / "good_seed1")) == 1, "a finished run is not started again"
    assert len(starts(folder / "bad_seed1")) == 2, "a failed run is started again"


def test_an_interrupted_sweep_continues_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.7}, "b": {"gamma": 0.6}, "c": {"gamma": 0.8}}})
    b, c = folder / "b_seed1", folder / "c_seed1"
    when(lambda: is_running(b), interrupt)
    assert run_sweep(words) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("go on with: python multi_train.py --sweep=")
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


def test_the_newest_checkpoint_decides_whether_a_run_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run killed before its last checkpoint continues, even if its last report is complete.

    A run killed after its last checkpoint is done, even without its last report.
    """
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"reported": {"gamma": 0.7}, "saved": {"gamma": 0.8}}})
    assert run_sweep(words) == 0
    reported, saved = (folder / name / "Game_1" for name in ("reported_seed1", "saved_seed1"))
    for run, steps in ((reported, 1000), (saved, 600)):
        report = {"agent_steps": steps, "seconds": 2.0, "return_mean": 1.0, "return_max": 7.0}
        (run / "metrics.jsonl").write_text(json.dumps(report) + "\n")
        write_checkpoint(run / "checkpoints" / "checkpoint_0000000001.pt", 1600 - steps)
    assert run_sweep(words) == 0
    assert "reported_seed1  continues at 600 agent steps" in capsys.readouterr().out
    assert [len(starts(run.parent)) for run in (reported, saved)] == [2, 1]


def test_the_run_folder_with_the_most_updates_comes_first_whatever_the_clock(tmp_path: Path) -> None:
    for name, updates, made_at in (("first", 10, 500), ("second", 30, 100), ("third", 30, 200), ("empty", None, 900)):
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        if updates is not None:
            (tmp_path / name / "checkpoints" / checkpoint_name(updates)).touch()
        (tmp_path / name / "config.json").touch()
        os.utime(tmp_path / name / "config.json", (made_at, made_at))
    assert [folder.name for folder in run_folders(tmp_path)] == ["third", "second", "first", "empty"]


def test_a_full_disk_does_not_end_a_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.7}, "b": {"gamma": 0.8}}})
    start = Job.start

    def no_room(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def start_or_not(job: Job, flags: dict[str, Any]) -> bool:
        monkeypatch.setattr(sweep_state, "write_json", no_room)
        monkeypatch.setattr(sweep_summary, "write_atomically", no_room)
        if job.folder.name == "a_seed1":
            no_room()
        return start(job, flags)

    monkeypatch.setattr(Job, "start", start_or_not)
    assert run_sweep(words) == 1
    out = capsys.readouterr().out
    assert "a_seed1  could not be started (No space left on device)" in out and "b_seed1  is done" in out
    assert "the table could not be written (No space left on device)" in out


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


def start_sweep(words: Sequence[str]) -> subprocess.Popen[bytes]:
    code = f"import multi_train, pathlib; multi_train.main({[*words]}, pathlib.Path({str(FAKE)!r}))"
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL)


def test_a_run_that_continues_tells_no_old_lines_of_its_log(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('new')\n")
    job = Job(tmp_path / "run", program)
    job.log.write_text("old\n")
    assert job.start({})
    while job.is_running:
        time.sleep(0.01)
    assert (job.new_log_lines(), job.new_log_lines()) == (["new"], [])


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


def test_other_flags_need_another_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.7}}})
    assert run_sweep(words) == 0
    assert run_sweep([*words, "--lr=0.1"]) == 2
    assert "holds the run a_seed1 with another --lr" in capsys.readouterr().err
    other = command(tmp_path / "other", {"runs": {"b": {"gamma": 0.7}}})
    assert run_sweep([other[0], *words[1:]]) == 2
    assert "holds other runs (a_seed1, ...) and none of this sweep" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        '{"runs": [1]}',
        '{"runs": {"a_seed1": 1}}',
        '{"runs": {"a_seed1": {"status": "done"}}}',
        '{"runs": {"a_seed1": {"flags": {}}}}',
        '{"runs": {"a_seed1": {"flags": [], "status": "done"}}}',
        "[" * 100_000,
        "9" * 5000,
    ],
)
def test_a_state_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    folder = tmp_path / "sweep"
    words = command(folder, {"runs": {"a": {"gamma": 0.7}}})
    (folder / "sweep.json").write_text(content)
    assert run_sweep(words) == 2
    errors = capsys.readouterr().err
    assert (
        errors.count("\n") == 1
        and f"--sweep_dir={folder} holds a sweep.json that is damaged or not of a sweep;" in errors
    )


def test_as_many_runs_as_jobs_run_at_once(tmp_path: Path) -> None:
    """The runs a and b wait until c has finished, so the sweep ends only if all three run at once."""
    folder = tmp_path / "sweep"
    words = command(
        folder, {"runs": {"a": {"gamma": 0.6}, "b": {"gamma": 0.6, "lr": 0.1}, "c": {"gamma": 0.7}}}, "--jobs=3"
    )

    def release_waiting_runs() -> None:
        for name in ("a_seed1", "b_seed1"):
            (folder / name / "go").touch()

    when((folder / "c_seed1" / "Game_1" / "metrics.jsonl").exists, release_waiting_runs)
    assert run_sweep(words) == 0
    assert {row["status"] for row in rows(folder).values()} == {"done"}


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
    rest = endless.communicate(timeout=60)[0].decode()
    assert endless.returncode == 0, rest
    assert rest.splitlines()[-1] == (
        f"go on with: python multi_train.py {own[0]} {own[1]} --environment_max_steps=100000000"
    )
    (row,) = rows(folder).values()
    assert row["status"] == "stopped"
    enough = int(row["agent_steps"]) + 50
    ended = subprocess.run([*words, f"--environment_max_steps={enough}"], cwd=ROOT, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (row,) = rows(folder).values()
    assert (row["status"], row["agent_steps"]) == ("done", str(enough))


def test_a_picture_that_cannot_be_drawn_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_summary, "ROOT", tmp_path)
    assert sweep_summary.draw_curves([{"return_mean": None}], tmp_path / "x.png") == "there are no curves to draw yet"
    sentence = sweep_summary.draw_curves([{"return_mean": 1.0, "folder": tmp_path}], tmp_path / "x.png")
    assert sentence.startswith("the curves could not be drawn: ") and "\n" not in sentence


def test_an_error_in_a_flag_names_the_run() -> None:
    with pytest.raises(UsageError, match="run a_seed1: --lr must"):
        plan_sweep({"runs": {"a": {"lr": "fast"}}}, {})
