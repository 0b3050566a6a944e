"""A run that stopped and went on is the run that never stopped: bit for bit where that is asked for."""

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import psutil
import pytest
import torch

from agents import checkpoint as checkpoint_files
from agents.checkpoint import BEST, Checkpoint, find_checkpoint, read_checkpoint, replay_name, write_checkpoint
from agents.sinks import read_metrics
from agents.tensor_file import read_tensor_file
from option_flags import Config, EnvironmentOptions, UsageError, parse
from tests.catch import Catch, Picture, make_catch
from workers import saver, training
from workers.messages import WorkersFailedError
from workers.progress import Progress
from workers.training import train
from workers.worker import MakeEnvironment
from wrappers.atari import make_atari
from wrappers.frame_stack import FrameStack
from wrappers.score_keeper import ScoreKeeper

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).resolve().parents[2]
# What two equal runs may differ in.
OF_THE_MACHINE = {
    *("time", "seconds", "steps_per_second", "frames_per_second", "learner_wait_fraction", "time_shares"),
    *("memory_learner_mb", "memory_workers_mb"),
}
QUEUE = '[{"type": "queue", "capacity": 1, "sample_ratio": 1.0}]'
MIXED = (
    '[{"type": "queue", "capacity": 3, "sample_ratio": 0.5}, {"type": "standard", "capacity": 40, "sample_ratio": 0.5}]'
)
NO_QUEUE = '[{"type": "standard", "capacity": 40, "sample_ratio": 1.0}]'
TWO_STANDARDS = (
    '[{"type": "queue", "capacity": 1, "sample_ratio": 0.5},'
    ' {"type": "standard", "capacity": 40, "sample_ratio": 0.25},'
    ' {"type": "standard", "capacity": 23, "sample_ratio": 0.25}]'
)
SMALL: dict[str, Any] = {
    "seed": 4,
    "worker_count": 2,
    "envs_per_worker": 3,
    "batch_size": 4,
    "r_f_steps": 5,
    "replay_parameters": MIXED,
    "report_period": 100,
    "lr_scheduler_steps": 500,
    "console": "off",
    "curves": False,
}


def go_on(folder: Path, make_environment: MakeEnvironment, **flags: Any) -> Path:
    """As main.py does it: the command line beats the checkpoint."""
    parent = find_checkpoint(str(folder))
    own = {"op_mode": "train_w_load", "load_model_url": str(folder)}
    return train(Config.from_flags({**parent.options, **own, **flags}), make_environment, parent)


def reports(folder: Path) -> list[dict[str, Any]]:
    return [dict(report) for report in read_metrics(folder / "metrics.jsonl")]


def comparable_reports(*folders: Path) -> list[dict[str, Any]]:
    lines = [report for folder in folders for report in reports(folder)]
    return [{name: value for name, value in line.items() if name not in OF_THE_MACHINE} for line in lines]


def games(*folders: Path) -> list[str]:
    return [line for folder in folders for line in (folder / "episodes.csv").read_text().splitlines()[1:]]


def assert_equal(first: Any, second: Any, name: str) -> None:
    """Of the same types and bits, all the way down."""
    assert type(first) is type(second), name
    if isinstance(first, dict):
        assert first.keys() == second.keys(), name
        for key in first:
            assert_equal(first[key], second[key], f"{name}.{key}")
    elif isinstance(first, list | tuple):
        assert len(first) == len(second), name
        for index, (one, other) in enumerate(zip(first, second, strict=True)):
            assert_equal(one, other, f"{name}[{index}]")
    elif isinstance(first, torch.Tensor):
        assert first.dtype == second.dtype and torch.equal(first, second), name
    else:
        assert first == second, name


def assert_same_state(first: Checkpoint, second: Checkpoint) -> None:
    """All that goes on: weights, optimizer, counters, games, unrolls in flight, and what the replays hold."""
    assert first.content["in_flight"] is not None
    for name in ("learner", "in_flight"):
        assert_equal(first.content[name], second.content[name], name)
    progress = [
        {name: value for name, value in saved.content["progress"].items() if "seconds" not in name}
        for saved in (first, second)
    ]
    assert_equal(progress[0], progress[1], "progress")
    assert_equal(read_tensor_file(first.replay_path), read_tensor_file(second.replay_path), "replays")


def assert_same_run(whole: Path, *lineage: Path) -> None:
    """A run that ended at its number of steps has a report of that moment, too; else all lines are the same."""
    assert_same_state(find_checkpoint(str(whole)), find_checkpoint(str(lineage[-1])))
    expected, lines = comparable_reports(whole), comparable_reports(*lineage)
    ends = [reports(part)[-1]["agent_steps"] for part in lineage[:-1] if reports(part)]
    assert [line for line in lines if line in expected] == expected
    assert all(line["agent_steps"] in ends for line in lines if line not in expected)
    assert games(whole) == games(*lineage)


# --- Exactly ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cuts", "flags"),
    [
        ((55, 435, 905), {"replay_parameters": MIXED, "keep_checkpoints": 1, "optimizer": "adam"}),
        (
            (785, 1_405),
            {
                **{"replay_parameters": NO_QUEUE, "use_lstm": True, "lstm_size": 16},
                **{"env": "QbertNoFrameskip-v4", "repeat_action_probability": 0.25},
            },
        ),
        ((315, 700), {"replay_parameters": TWO_STANDARDS, "env": "BreakoutNoFrameskip-v4", "use_kl_mask": True}),
    ],
    ids=["queue-and-standard", "no-queue-lstm-qbert-sticky", "two-standards"],
)
def test_a_run_in_parts_is_the_whole_run_bit_for_bit(
    tmp_path: Path, cuts: Sequence[int], flags: dict[str, Any]
) -> None:
    """The cuts fall between unrolls of one round, between updates, between reports, and into the first fill."""
    base = {**SMALL, "reproducible": True, "results_dir": str(tmp_path), **flags}
    whole = train(Config.from_flags({**base, "environment_max_steps": cuts[-1]}), make_atari)
    part = train(Config.from_flags({**base, "environment_max_steps": cuts[0]}), make_atari)
    parts = [part]
    for cut in cuts[1:]:
        part = go_on(part, make_atari, environment_max_steps=cut)
        parts.append(part)
    assert find_checkpoint(str(whole)).updates > 20
    assert_same_run(whole, *parts)


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `python main.py` with the flags it is given; whatever becomes of it, nothing of it outlives the test."""
    runs: list[subprocess.Popen[str]] = []

    def start_run(*flags: str) -> subprocess.Popen[str]:
        command = [sys.executable, "main.py", *flags]
        pipe = subprocess.PIPE
        runs.append(subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True))
        return runs[-1]

    yield start_run
    for run in runs:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        with run:
            run.communicate(timeout=20)


def finish(run: subprocess.Popen[str]) -> str:
    out, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    assert errors == ""
    return out


def interrupt_when_it_learns(run: subprocess.Popen[str], number: signal.Signals) -> str:
    """Send the signal to all processes after some updates; return the last line."""
    assert run.stdout is not None
    learning = (line for line in run.stdout if "entropy 1." in line)
    assert next(learning, None) and next(learning, None), "it ended before its first update"
    os.killpg(run.pid, number)
    return finish(run).splitlines()[-1]


def test_interrupted_by_signals_to_all_processes_it_goes_on_exactly(tmp_path: Path, start: Start) -> None:
    """With the command of the last line, and no flag but the number of steps."""
    flags = {**SMALL, "reproducible": True, "console": "plain", "console_period": 0.05, "results_dir": str(tmp_path)}
    words = [f"--{name}={value}" for name, value in flags.items()]
    lineage: list[Path] = []
    run = start("--op_mode=train", "--environment_max_steps=100000", *words)
    line = interrupt_when_it_learns(run, signal.SIGINT)
    for last in (False, True):
        (folder,) = set(tmp_path.iterdir()) - set(lineage)
        lineage.append(folder)
        steps = find_checkpoint(str(folder)).agent_steps
        assert line.startswith("go on with: python main.py --op_mode=train_w_load --load_model_url=")
        command = shlex.split(line.removeprefix("go on with: python main.py"))
        run = start(*command, *([f"--environment_max_steps={steps + 405}"] if last else []))
        if last:
            assert "the games go on exactly where they stopped" in finish(run)
        else:
            line = interrupt_when_it_learns(run, signal.SIGTERM)
    (folder,) = set(tmp_path.iterdir()) - set(lineage)
    whole = Config.from_flags({**flags, "console": "off", "environment_max_steps": steps + 405})
    assert_same_run(train(whole, make_atari), *lineage, folder)


CATCH: dict[str, Any] = {
    **{"seed": 1, "worker_count": 1, "envs_per_worker": 8, "r_f_steps": 10, "batch_size": 8, "frames_stacked": 1},
    **{"report_period": 400, "precision": "float32", "console": "off", "curves": False},
    **{"replay_parameters": MIXED, "lr_scheduler_steps": 500},
}


def catch_run(results: Path, **flags: Any) -> Path:
    return train(Config.from_flags({**CATCH, "results_dir": str(results), **flags}), make_catch)


def stop_at_once(*_: object) -> None:
    """In place of the training loop: a signal came before the first unroll did."""


def test_a_run_that_stops_before_it_begins_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = catch_run(tmp_path, reproducible=True, environment_max_steps=2_000)
    parent = catch_run(tmp_path, reproducible=True, environment_max_steps=1_000)
    with monkeypatch.context() as patched:
        patched.setattr(training, "training_loop", stop_at_once)
        patched.setattr(saver, "ROUND_PATIENCE", 0.0)  # the workers are not even there yet
        child = go_on(parent, make_catch, environment_max_steps=2_000, keep_checkpoints=7)
    shutil.rmtree(parent / "checkpoints")  # the child needs nothing of it
    grandchild = go_on(child, make_catch)
    assert find_checkpoint(str(grandchild)).options["keep_checkpoints"] == 7
    assert_same_run(whole, parent, child, grandchild)


def test_replays_of_another_moment_are_no_exact_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkpoint written again before the next update has the same name; a kill kept its replays from following."""
    folder = catch_run(tmp_path, reproducible=True, environment_max_steps=1_000)
    saved = find_checkpoint(str(folder))
    later = {**saved.content, "progress": {**saved.content["progress"], "agent_steps": saved.agent_steps + 40}}
    write_checkpoint(saved.path, later)
    go_on(folder, make_catch, environment_max_steps=1_400, console="plain")
    out = capsys.readouterr().out
    assert "new games begin" in out
    assert f"replays are as old as {saved.replay_path.name}" in out


def test_games_of_other_options_are_not_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = {**SMALL, "envs_per_worker": 1, "batch_size": 2, "results_dir": str(tmp_path), "reproducible": True}
    folder = train(Config.from_flags({**small, "environment_max_steps": 200}), make_atari)
    child = go_on(
        folder,
        make_atari,
        **{"environment_max_steps": 400, "console": "plain"},
        **{"repeat_action_probability": 0.5, "episodic_life": False, "noop_threshold": 0},
    )
    assert "new games begin" in capsys.readouterr().out
    assert reports(child)[-1]["worker_restarts"] == 0


# --- With new games ---------------------------------------------------------------------------------------------------


def test_counters_schedule_and_best_go_on_without_a_jump(tmp_path: Path) -> None:
    first = catch_run(tmp_path, environment_max_steps=2_000)
    saved = find_checkpoint(str(first))
    second = go_on(first, make_catch, environment_max_steps=4_000)
    before, after = reports(first)[-1], reports(second)[0]
    assert saved.agent_steps == before["agent_steps"] == 2_000
    assert 2_400 <= after["agent_steps"] < 2_440
    assert after["frames"] == 4 * after["agent_steps"]
    assert after["episodes"] == after["agent_steps"] // 5, "a game of Catch takes 5 steps"
    assert 0 < after["updates"] - before["updates"] <= 11
    assert after["seconds"] > before["seconds"]
    assert after["return_max"] == before["return_max"] == 1
    played = [float(line.split(",")[1]) for line in games(first, second)[: int(after["episodes"])]]
    assert saved.content["progress"]["recent_returns"] == played[300:400]
    assert after["return_mean_100"] == pytest.approx(sum(played[-100:]) / 100)
    middle = (before["updates"] + after["updates"] - 1) / 2
    assert after["learning_rate"] == pytest.approx(7e-4 * (1 - middle / 500))

    best, carried = (read_checkpoint(folder / "checkpoints" / BEST) for folder in (first, second))
    last = find_checkpoint(str(second))
    scores = [checkpoint.content["progress"]["best_return_mean"] for checkpoint in (best, carried, last)]
    assert scores[0] <= scores[1] == scores[2], "the best one is the one that has the best score"


def test_a_best_policy_that_is_not_beaten_is_carried_over(tmp_path: Path) -> None:
    first = catch_run(tmp_path, environment_max_steps=1_000)
    saved = find_checkpoint(str(first))
    unbeatable = {**saved.content["progress"], "best_return_mean": 5.0}
    write_checkpoint(saved.path, {**saved.content, "progress": unbeatable})
    best = (first / "checkpoints" / BEST).read_bytes()
    second = go_on(first, make_catch, environment_max_steps=2_000)
    assert (second / "checkpoints" / BEST).read_bytes() == best
    assert find_checkpoint(str(second)).content["progress"]["best_return_mean"] == 5.0


def test_the_first_run_settles_the_schedule_and_the_seed(tmp_path: Path) -> None:
    first = catch_run(tmp_path, environment_max_steps=1_000, lr_scheduler_steps=0, seed=None)
    settled = find_checkpoint(str(first)).options
    assert settled["lr_scheduler_steps"] == (1_000 // 10 - 4) // 4, "a tenth of the replay is filled first"
    assert settled["seed"] is not None
    second = find_checkpoint(str(go_on(first, make_catch, environment_max_steps=2_000))).options
    assert {name for name in settled if settled[name] != second[name]} == {"environment_max_steps"}


def test_a_child_names_its_parent_and_the_step(tmp_path: Path) -> None:
    first = catch_run(tmp_path, environment_max_steps=1_000)
    saved = find_checkpoint(str(first))
    second = go_on(first, make_catch, environment_max_steps=1_400)
    description = json.loads((second / "config.json").read_text())
    assert description["parent"] == {
        "run": str(first),
        "checkpoint": str(saved.path),
        "agent_steps": 1_000,
        "updates": saved.updates,
    }
    assert description["options"]["environment_max_steps"] == 1_400
    assert json.loads((first / "config.json").read_text())["parent"] is None


@pytest.mark.parametrize("state", ["of now", "older", "damaged", "missing"])
def test_saved_replays_are_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str], state: str) -> None:
    """Where there are none to load, an update has to wait until they are filled."""
    first = catch_run(tmp_path, save_replay=True, environment_max_steps=1_000, training_fill_in_factor=1.0)
    saved = find_checkpoint(str(first))
    match state:
        case "older":
            saved.replay_path.rename(saved.replay_path.with_name(replay_name(saved.updates - 1)))
        case "damaged":
            saved.replay_path.write_bytes(saved.replay_path.read_bytes()[:-1])
        case "missing":
            saved.replay_path.unlink()
    second = go_on(first, make_catch, environment_max_steps=1_200, console="plain")
    out = capsys.readouterr().out
    notes = {"older": "replays are as old as", "damaged": "is cut off", "missing": "no saved replays: they fill anew"}
    assert notes.get(state, "new games begin") in out
    loaded = state in {"of now", "older"}
    assert reports(second)[-1]["replay_fill"]["1_standard"] == (40 if loaded else 20)
    assert (reports(second)[-1]["updates"] > saved.updates) == loaded


def test_saved_replays_do_for_batches_of_another_size(tmp_path: Path) -> None:
    """The queues, whose sizes follow the batch's, begin anew."""
    first = catch_run(tmp_path, save_replay=True, environment_max_steps=1_000)
    for batch_size in (4, 16):
        child = go_on(first, make_catch, environment_max_steps=1_600, batch_size=batch_size)
        grandchild = go_on(child, make_catch, environment_max_steps=2_200)
        assert reports(grandchild)[-1]["replay_fill"]["1_standard"] == 40


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return catch_run(tmp_path_factory.mktemp("finished"), environment_max_steps=400)


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("env", "BreakoutNoFrameskip-v4"),
        ("network", "conv3"),
        ("use_lstm", True),
        ("lstm_size", 17),
        ("frames_stacked", 2),
        ("grayscaling_frames", False),
        ("frame_scale_resolution", "42,42"),
        ("environment_max_steps", 400),
    ],
)
def test_what_cannot_change_is_refused_in_one_sentence(finished: Path, flag: str, value: object) -> None:
    folders = set(finished.parent.iterdir())
    with pytest.raises(UsageError, match=rf"^--{flag}={value} .*\.$"):
        go_on(finished, make_catch, **{"environment_max_steps": 800, flag: value})
    assert set(finished.parent.iterdir()) == folders


def test_the_command_line_beats_the_checkpoint_which_beats_the_defaults(finished: Path) -> None:
    saved = find_checkpoint(str(finished))
    words = ["--op_mode=train_w_load", f"--load_model_url={finished}", "--environment_max_steps=800", "--lr=0.125"]
    config = parse(words, saved.options)
    assert config.optimizer.lr == 0.125
    assert config.workers.envs_per_worker == 8
    assert config.loss == Config().loss
    child = find_checkpoint(str(train(config, make_catch, saved)))
    assert child.options == {**saved.options, "environment_max_steps": 800, "lr": 0.125}


# --- Where things go wrong --------------------------------------------------------------------------------------------


class BreakingCatch(Catch):
    """Breaks for good, in whatever process, once it was played for a while."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._marker = Path(os.environ["BREAKING_CATCH"])
        self._steps = 0

    def step(self, action: int) -> tuple[Picture, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        if self._steps == 25:
            self._marker.touch()
        if self._marker.exists():
            raise RuntimeError("broken")
        return super().step(action)


def make_breaking_catch(options: EnvironmentOptions, seed: int) -> gymnasium.Env[Any, Any]:
    return FrameStack(ScoreKeeper(BreakingCatch(seed)), options.frames_stacked)


@pytest.mark.parametrize("reproducible", [False, True])
def test_a_run_whose_workers_fail_for_good_saves_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reproducible: bool
) -> None:
    monkeypatch.setenv("BREAKING_CATCH", str(tmp_path / "broken"))
    flags = {"reproducible": reproducible, "results_dir": str(tmp_path / "results"), "worker_restart_budget": 0}
    with pytest.raises(WorkersFailedError, match="broken"):
        train(Config.from_flags({**CATCH, **flags}), make_breaking_catch)
    (folder,) = (tmp_path / "results").iterdir()
    assert find_checkpoint(str(folder)).agent_steps in {80, 160}  # each environment played two unrolls
    assert reports(folder) or reproducible


def test_a_best_policy_that_could_not_be_saved_is_not_the_one_to_beat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first checkpoints meet a full disk, and the policy gets no better after it: the best is the best saved."""
    real, refused = checkpoint_files.write_checkpoint, 0

    def write(path: Path, content: dict[str, Any]) -> None:
        nonlocal refused
        if refused < 2:
            refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, content)

    monkeypatch.setattr(checkpoint_files, "write_checkpoint", write)
    monkeypatch.setattr(Progress, "return_mean", 0.25)
    folder = catch_run(tmp_path, environment_max_steps=2_000, save_model_period=15)
    assert refused == 2
    assert read_checkpoint(folder / "checkpoints" / BEST).content["progress"]["best_return_mean"] == 0.25


def test_a_full_disk_does_not_end_a_run(tmp_path: Path, start: Start) -> None:
    """From outside, the system forbids the learner all larger files for a while."""
    flags = {**SMALL, "console": "plain", "console_period": 0.05, "save_model_period": 10, "results_dir": str(tmp_path)}
    run = start("--op_mode=train", *[f"--{name}={value}" for name, value in flags.items()])
    assert run.stdout is not None

    def printed(words: str) -> bool:
        assert run.stdout is not None
        return any(words in line for line in run.stdout)

    assert printed("entropy 1.")
    (folder,) = tmp_path.iterdir()
    metrics = folder / "metrics.jsonl"
    while not metrics.read_bytes() or not list(folder.glob("checkpoints/*.pt")):
        assert run.poll() is None
        time.sleep(0.01)
    learner = psutil.Process(run.pid)
    learner.rlimit(psutil.RLIMIT_FSIZE, (metrics.stat().st_size, -1))
    assert printed("cannot be written") and printed("no checkpoint could be written")
    assert find_checkpoint(str(folder)).updates > 0, "the last whole one stays"
    learner.rlimit(psutil.RLIMIT_FSIZE, (-1, -1))
    assert printed("can be written again")
    os.killpg(run.pid, signal.SIGINT)
    assert finish(run).splitlines()[-1].startswith("go on with: ")
    steps = [report["agent_steps"] for report in reports(folder)]
    gaps = [after - before for before, after in pairwise([0, *steps])]
    assert len(gaps) > 2
    assert max(gaps) <= 100 + 2 * 5, "no report is missing: one a period, after the update that fills it"
    assert find_checkpoint(str(folder)).agent_steps == steps[-1]
