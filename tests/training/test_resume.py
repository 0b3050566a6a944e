"""Resumed runs continue their parents; with --reproducible, they equal uninterrupted runs bit for bit."""

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
import numpy as np
import psutil
import pytest
import torch

from agents.spaces import make_unroll_layout
from option_flags import Config, EnvironmentOptions, OptimizerOptions
from options.rules import UsageError
from run_files.checkpoint import BEST, Checkpoint, find_checkpoint, read_checkpoint, replay_name, write_checkpoint
from run_files.replay_file import read_tensor_file
from run_files.run_history import read_history
from tests.catch import Catch, Picture, make_catch
from tests.options.words import parse
from tests.training.catch_runs import CATCH, MIXED, QUEUE, catch_run, reports, resume_run
from training import checkpoint_saver as saver
from training import train as training
from training.draw_statistics import SECONDS
from training.progress import Progress
from training.resume import Resume, plan_updates
from training.train import train
from workers.failures import WorkersFailedError
from wrappers.atari import make_atari
from wrappers.frame_stack import FrameStack
from wrappers.score_keeper import ScoreKeeper

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
OLDER_RUNS = ROOT / "tests" / "older_runs"
# Figures of the machine, in which equal runs may differ.
OF_THE_MACHINE = {
    *("time", "seconds", "steps_per_second", "frames_per_second", "learner_wait_fraction", "time_shares"),
    *("replay_time_shares", "memory_learner_mb", "memory_workers_mb"),
    *("cpu_learner", "cpu_workers", "worker_time_shares", "gpu_utilization", "gpu_memory_mb"),
}
NO_QUEUE = '[{"type": "standard", "capacity": 40, "sample_ratio": 1.0}]'
TWO_STANDARDS = (
    '[{"type": "queue", "capacity": 3, "sample_ratio": 0.5},'
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


def comparable_reports(*folders: Path) -> list[dict[str, Any]]:
    lines = [report for folder in folders for report in reports(folder)]
    return [{name: value for name, value in line.items() if name not in OF_THE_MACHINE} for line in lines]


def games(*folders: Path) -> list[str]:
    return [line for folder in folders for line in (folder / "episodes.csv").read_text().splitlines()[1:]]


def assert_equal(first: Any, second: Any, name: str) -> None:
    """The same types and values at every level of nesting."""
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
    """Everything that a resumed run loads: weights, optimizer, counters, games, unrolls in flight, and replays."""
    assert first.content["in_flight"] is not None
    for name in ("learner", "in_flight"):
        assert_equal(first.content[name], second.content[name], name)
    progress, replays = [], []
    for saved in (first, second):
        progress.append({name: v for name, v in saved.content["progress"].items() if "seconds" not in name})
        progress[-1].pop("best_return_mean")  # updated at each save, and each interruption adds a save
        for row in progress[-1]["draw_sums"]:
            row[SECONDS] = 0.0
        replays.append(read_tensor_file(saved.replay_path))
        for batch in replays[-1]["mix"]["prepared"]:
            batch["draws"] = [(drawn, age) for drawn, age, _ in batch["draws"]]
    assert_equal(progress[0], progress[1], "progress")
    assert_equal(replays[0], replays[1], "replays")


def assert_same_run(whole: Path, *lineage: Path) -> None:
    """All lines are equal, except that a parent that reached its number of steps wrote one more report there."""
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
        (
            (15, 435, 905),
            {
                **{"replay_parameters": TWO_STANDARDS, "keep_checkpoints": 1, "optimizer": "adam"},
                **{"env": "BreakoutNoFrameskip-v4", "use_kl_mask": True},
            },
        ),
        (
            (785, 1_405),
            {
                **{"replay_parameters": NO_QUEUE, "use_lstm": True, "lstm_size": 16},
                **{"env": "QbertNoFrameskip-v4", "repeat_action_probability": 0.25},
                "use_replay_compression": True,
            },
        ),
    ],
    ids=["two-standards-adam-breakout-mask", "no-queue-lstm-qbert-sticky-compressed"],
)
def test_a_run_in_parts_equals_the_whole_run_bit_for_bit(
    tmp_path: Path, cuts: Sequence[int], flags: dict[str, Any]
) -> None:
    """The cuts fall between unrolls of one round, between updates, between reports, and into the warm-up."""
    base = {**SMALL, "reproducible": True, "results_dir": str(tmp_path), **flags}
    whole = train(Config.from_flags({**base, "environment_max_steps": cuts[-1]}), make_atari)
    part = train(Config.from_flags({**base, "environment_max_steps": cuts[0]}), make_atari)
    parts = [part]
    for cut in cuts[1:]:
        part = resume_run(part, make_atari, environment_max_steps=cut)
        parts.append(part)
    assert find_checkpoint(str(whole)).updates > 20
    assert_same_run(whole, *parts)


Start = Callable[..., subprocess.Popen[str]]
# `python main.py` with a longer wait for the workers' snapshots, because the machine may be busy.
PATIENT_MAIN = """
import runpy
from training import checkpoint_saver
checkpoint_saver.SNAPSHOT_SECONDS = 60.0
runpy.run_path("main.py", run_name="__main__")
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts main.py with the given flags; all its processes are killed after the test."""
    runs: list[subprocess.Popen[str]] = []

    def start_run(*flags: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PATIENT_MAIN, *flags]
        pipe = subprocess.PIPE
        runs.append(subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True))
        return runs[-1]

    yield start_run
    for run in runs:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        with run:
            run.communicate(timeout=60)


def finish(run: subprocess.Popen[str]) -> str:
    out, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    assert errors == ""
    return out


def interrupt_after_updates(run: subprocess.Popen[str], number: signal.Signals) -> str:
    """Send the signal to all processes after some updates; return the last line."""
    assert run.stdout is not None
    learning = (line for line in run.stdout if "entropy 1." in line)
    assert next(learning, None) and next(learning, None), "the run ended before its first updates"
    os.killpg(run.pid, number)
    return finish(run).splitlines()[-1]


def resume_flags(last_line: str) -> list[str]:
    assert last_line.startswith("go on with: python main.py --op_mode=train_w_load --load_model_url=")
    return shlex.split(last_line.removeprefix("go on with: python main.py"))


def test_a_run_interrupted_by_signals_to_all_processes_is_resumed_exactly(
    tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the command that the last line prints; only the number of steps is added."""
    flags = {**SMALL, "reproducible": True, "console": "plain", "console_period": 0.05, "results_dir": str(tmp_path)}
    words = [f"--{name}={value}" for name, value in flags.items()]
    run = start("--op_mode=train", "--environment_max_steps=100000", *words)
    last_line = interrupt_after_updates(run, signal.SIGINT)
    (first,) = tmp_path.iterdir()
    last_line = interrupt_after_updates(start(*resume_flags(last_line)), signal.SIGTERM)
    (second,) = set(tmp_path.iterdir()) - {first}

    parent = find_checkpoint(str(second))
    steps = parent.agent_steps + 405
    words = [*resume_flags(last_line), f"--environment_max_steps={steps}"]
    third = train(parse(words, parent.options), make_atari, parent)
    assert "the games continue exactly where they stopped" in capsys.readouterr().out
    whole = train(Config.from_flags({**flags, "console": "off", "environment_max_steps": steps}), make_atari)
    assert_same_run(whole, first, second, third)


ALL_FOUR = json.dumps(
    [
        {"type": "queue", "capacity": 3, "sample_ratio": 0.25},
        {"type": "standard", "capacity": 40, "sample_ratio": 0.25},
        {"type": "attentive", "capacity": 30, "sample_ratio": 0.25, "lambda_batch_multiplier": 3},
        {"type": "elite", "capacity": 25, "sample_ratio": 0.25, "lambda_batch_multiplier": 3}
        | {"insert_strategy": "elite_insertion", "dist_function": "cos_dist"},
    ]
)


def ending_at(steps: int) -> Callable[..., Progress]:
    """A replacement of Progress that ends a run at `steps`, like an interruption; its plans stay the same."""

    def make(*arguments: Any) -> Progress:
        progress = Progress(*arguments)
        progress.max_steps = steps
        return progress

    return make


@pytest.mark.parametrize("caching", [False, True])
def test_a_run_in_parts_whose_replays_rank_equals_the_whole_run_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caching: bool
) -> None:
    """λ depends on the updates that the first run planned, even if that run is interrupted."""
    monkeypatch.setattr(Config, "planned_updates", 300)
    flags = {"replay_parameters": ALL_FOUR, "reproducible": True, "caching": caching, "cache_output_buffer_size": 2}
    more: dict[str, Any] = {**flags, "r_f_steps": 5, "frames_stacked": 2, "report_period": 130}
    whole = catch_run(tmp_path, environment_max_steps=900, **more)
    with monkeypatch.context() as patched:
        patched.setattr(training, "Progress", ending_at(455))
        part = catch_run(tmp_path, environment_max_steps=900, **more)
    with monkeypatch.context() as patched:
        patched.setattr(Config, "planned_updates", 1_000)
        rest = resume_run(part, make_catch)
    assert find_checkpoint(str(whole)).updates > 60
    assert_same_run(whole, part, rest)
    for name, figures in reports(rest)[-1]["replays"].items():
        ranks = name in {"2_attentive", "3_elite"}
        assert (figures["distance_drawn"] is not None) == (1 < figures["lambda"] < 3) == ranks
    prepared = read_tensor_file(find_checkpoint(str(rest)).replay_path)["mix"]["prepared"]
    assert len(prepared) == (2 if caching else 0)


@pytest.fixture(scope="module")
def exact_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 steps, made once for several tests; a test that changes files must use `copy_of`."""
    return catch_run(tmp_path_factory.mktemp("exact"), reproducible=True, environment_max_steps=1_000)


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, not reproducible, with saved replays that are full before the first update."""
    flags = {"save_replay": True, "training_fill_in_factor": 1.0}
    return catch_run(tmp_path_factory.mktemp("saved"), **flags, environment_max_steps=1_000)


def copy_of(run: Path, results: Path) -> Path:
    return Path(shutil.copytree(run, results / "parent"))


def stop_at_once(*_: object) -> None:
    """A replacement of the training loop, as if a signal came before the first unroll."""


def test_a_run_that_stops_before_its_first_unroll_loses_nothing(
    tmp_path: Path, exact_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = catch_run(tmp_path, reproducible=True, environment_max_steps=2_000)
    parent = copy_of(exact_run, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(training, "training_loop", stop_at_once)
        patched.setattr(saver, "SNAPSHOT_SECONDS", 0.0)  # the workers have not started yet
        child = resume_run(parent, make_catch, environment_max_steps=2_000, keep_checkpoints=7)
    shutil.rmtree(parent / "checkpoints")  # the child has its own copies
    grandchild = resume_run(child, make_catch)
    assert find_checkpoint(str(grandchild)).options["keep_checkpoints"] == 7
    assert_same_run(whole, parent, child, grandchild)


def test_a_run_that_stops_before_its_first_unroll_saves_its_own_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own options with its parent's plan would give a learning rate of 0, and draws of the parent's replays."""
    parent = catch_run(tmp_path, environment_max_steps=1_000, lr_scheduler_steps=0)
    with monkeypatch.context() as patched:
        patched.setattr(training, "training_loop", stop_at_once)
        child = resume_run(parent, make_catch, environment_max_steps=2_000, replay_parameters=QUEUE)
    grandchild = resume_run(child, make_catch)
    plans = [json.loads((run / "config.json").read_text())["planned_updates"] for run in (parent, child, grandchild)]
    assert plans[0] < plans[1] == plans[2]
    assert reports(child) == []
    steps = [report["agent_steps"] for report in reports(parent) + reports(grandchild)]
    assert steps == sorted(set(steps)), "an interval was reported twice"
    rates = [report["learning_rate"] for report in reports(grandchild)]
    assert len(rates) > 1 and min(rates) > 0.0


def test_with_replays_of_another_step_the_resume_is_not_exact(
    tmp_path: Path, exact_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkpoint written again before the next update keeps its name; a kill came before its replays were saved."""
    folder = copy_of(exact_run, tmp_path)
    saved = find_checkpoint(str(folder))
    later = {**saved.content, "progress": {**saved.content["progress"], "agent_steps": saved.agent_steps + 40}}
    write_checkpoint(saved.path, later)
    resume_run(folder, make_catch, environment_max_steps=1_400, console="plain")
    out = capsys.readouterr().out
    assert "new games begin" in out
    assert f"the replays are those of {saved.replay_path.name}, which is older" in out


def test_games_with_other_environment_options_are_not_continued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {**SMALL, "worker_count": 1, "envs_per_worker": 1, "batch_size": 2, "reproducible": True}
    small["results_dir"] = str(tmp_path)
    folder = train(Config.from_flags({**small, "environment_max_steps": 200}), make_atari)
    child = resume_run(
        folder,
        make_atari,
        **{"environment_max_steps": 400, "console": "plain"},
        **{"repeat_action_probability": 0.5, "episodic_life": False, "noop_threshold": 0},
    )
    assert "new games begin" in capsys.readouterr().out
    assert reports(child)[-1]["worker_restarts"] == 0


# --- With new games ---------------------------------------------------------------------------------------------------


def test_counters_schedule_and_best_continue_without_a_jump(tmp_path: Path) -> None:
    first = catch_run(tmp_path, environment_max_steps=2_000)
    saved = find_checkpoint(str(first))
    second = resume_run(first, make_catch, environment_max_steps=4_000)
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
    assert after["return_mean"] == pytest.approx(sum(played[-100:]) / 100)
    middle = (before["updates"] + after["updates"] - 1) / 2
    assert after["learning_rate"] == pytest.approx(OptimizerOptions().lr * (1 - middle / 500))

    best, carried = (read_checkpoint(folder / "checkpoints" / BEST) for folder in (first, second))
    last = find_checkpoint(str(second))
    scores = [checkpoint.content["progress"]["best_return_mean"] for checkpoint in (best, carried, last)]
    assert scores[0] <= scores[1] == scores[2], "best.pt is the checkpoint with the best mean return"


def test_the_best_checkpoint_is_kept_until_a_better_one(tmp_path: Path, saved_run: Path) -> None:
    """best.pt may be newer than the checkpoint that is resumed; its own mean return counts."""
    first = copy_of(saved_run, tmp_path)
    best_path = first / "checkpoints" / BEST
    saved = read_checkpoint(best_path)
    unbeatable = {**saved.content["progress"], "best_return_mean": 5.0}
    best_path.unlink()  # a hard link to the newest checkpoint, which must not change
    write_checkpoint(best_path, {**saved.content, "progress": unbeatable})
    best = best_path.read_bytes()
    second = resume_run(first, make_catch, environment_max_steps=2_000)
    assert (second / "checkpoints" / BEST).read_bytes() == best
    assert find_checkpoint(str(second)).content["progress"]["best_return_mean"] == 5.0


def test_the_first_run_fixes_the_schedule_and_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run keeps both, even with another batch size."""
    with monkeypatch.context() as patched:
        patched.setattr(training, "Progress", ending_at(500))
        first = catch_run(tmp_path, environment_max_steps=1_000, lr_scheduler_steps=0, seed=None)
    fixed = find_checkpoint(str(first))
    assert fixed.options["seed"] is not None
    assert fixed.content["planned_updates"] == (1_000 // 10 - 4) // 4, "the warm-up takes a tenth of the replay"
    second = find_checkpoint(str(resume_run(first, make_catch, batch_size=4)))
    assert {name for name, value in fixed.options.items() if value != second.options[name]} == {"batch_size"}
    assert second.content["planned_updates"] == fixed.content["planned_updates"]
    config = json.loads((second.run_folder / "config.json").read_text())
    assert config["planned_updates"] == fixed.content["planned_updates"]


def test_a_run_with_more_steps_than_its_parent_gets_a_new_schedule(tmp_path: Path) -> None:
    """The parent's learning rate has fallen to almost 0; the longer schedule raises it again."""
    first = catch_run(tmp_path, environment_max_steps=1_000, lr_scheduler_steps=0)
    assert reports(first)[-1]["learning_rate"] < OptimizerOptions().lr / 5
    second = resume_run(first, make_catch, environment_max_steps=2_000)
    before, after = find_checkpoint(str(first)), find_checkpoint(str(second))
    assert after.content["planned_updates"] == before.updates + 1_000 // (4 * 10)
    first_report = reports(second)[0]
    middle = (before.updates + first_report["updates"] - 1) / 2
    rate = OptimizerOptions().lr * (1 - middle / after.content["planned_updates"])
    assert first_report["learning_rate"] == pytest.approx(rate), (
        "the mean over its own updates, without those that the parent reported"
    )
    assert after.updates == pytest.approx(after.content["planned_updates"], abs=1)


@pytest.mark.parametrize("saved_plan", [False, True])
def test_a_given_schedule_is_kept(saved_plan: bool, saved_run: Path) -> None:
    """Older versions saved the planned updates as if --lr_scheduler_steps had been given."""
    parent = find_checkpoint(str(saved_run))
    planned = int(parent.content["planned_updates"])
    parent.content["options"] = {**parent.options, "lr_scheduler_steps": planned if saved_plan else 500}
    config = Config.from_flags(parent.options)
    assert plan_updates(parent, config) == (planned, planned if saved_plan else 500)
    longer = config.replace_flags(environment_max_steps=10_000)
    new_plan, schedule = plan_updates(parent, longer)
    assert new_plan > 4 * planned
    assert schedule == (new_plan if saved_plan else 500)


def test_a_run_is_resumed_with_other_replays(tmp_path: Path) -> None:
    """They start empty, and their figures contain no draws from the old replays."""
    first = catch_run(tmp_path, environment_max_steps=1_000, save_replay=True, frames_stacked=2)
    second = resume_run(first, make_catch, environment_max_steps=2_000, replay_parameters=QUEUE)
    assert list(reports(second)[0]["replays"]) == ["0_queue"]


@pytest.mark.parametrize("archive", sorted(OLDER_RUNS.iterdir()), ids=lambda path: path.stem)
def test_runs_of_older_versions_are_resumed(tmp_path: Path, archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catch with an LSTM and saved replays, 1,500 steps; its weights were set to 0, so that the archive is small."""
    shutil.unpack_archive(archive, tmp_path)
    older = tmp_path / "run"
    child = resume_run(older, make_catch, environment_max_steps=2_500, results_dir=str(tmp_path), console="plain")
    assert "the replays start empty" not in capsys.readouterr().out
    history = read_history(child)
    steps, means = history.curve("return_mean")
    assert steps[0] < 600 and steps[-1] == 2_500 and (np.diff(steps) > 0).all() and (np.diff(steps) < 600).all()
    assert len(means) == len(history.reports)
    assert find_checkpoint(str(child)).updates > find_checkpoint(str(older)).updates


@pytest.mark.parametrize("content", [None, b"", b"{}\n", b"\xff\0\n{}\n"])
def test_a_run_is_resumed_without_its_curves(tmp_path: Path, saved_run: Path, content: bytes | None) -> None:
    parent = copy_of(saved_run, tmp_path)
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        (parent / name).unlink(missing_ok=True)
        if content is not None:
            (parent / name).write_bytes(content)
    assert find_checkpoint(str(resume_run(parent, make_catch, environment_max_steps=1_200))).agent_steps == 1_200


def test_options_that_an_older_version_did_not_have_are_listed(
    tmp_path: Path, saved_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = copy_of(saved_run, tmp_path)
    checkpoint = find_checkpoint(str(older))
    del checkpoint.content["options"]["proximal_loss_weight"], checkpoint.content["options"]["avg_buff_size"]
    write_checkpoint(checkpoint.path, checkpoint.content)
    for parent in (older, saved_run):
        resume_run(parent, make_catch, environment_max_steps=1_200, avg_buff_size=30, console="plain")
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "version did not have" in line]
    assert said == "options that the parent's version did not have: --proximal_loss_weight=0.05 --avg_buff_size=30"


def test_a_child_names_its_parent_and_the_step(saved_run: Path) -> None:
    first = saved_run
    saved = find_checkpoint(str(first))
    second = resume_run(first, make_catch, environment_max_steps=1_400)
    description = json.loads((second / "config.json").read_text())
    assert description["parent"] == {
        "run": str(first),
        "checkpoint": str(saved.path),
        "agent_steps": 1_000,
        "updates": saved.updates,
    }
    assert description["options"]["environment_max_steps"] == 1_400
    assert json.loads((first / "config.json").read_text())["parent"] is None


@pytest.mark.parametrize("state", ["newest", "older", "damaged", "missing"])
def test_saved_replays_are_loaded(
    tmp_path: Path, saved_run: Path, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    """If none can be loaded, updates start after a new warm-up."""
    first = copy_of(saved_run, tmp_path)
    saved = find_checkpoint(str(first))
    match state:
        case "older":
            saved.replay_path.rename(saved.replay_path.with_name(replay_name(saved.updates - 1)))
        case "damaged":
            saved.replay_path.write_bytes(saved.replay_path.read_bytes()[:-1])
        case "missing":
            saved.replay_path.unlink()
    second = resume_run(first, make_catch, environment_max_steps=1_200, console="plain")
    out = capsys.readouterr().out
    notes = {
        "older": "which is older than the checkpoint",
        "damaged": "is cut off",
        "missing": "the replays start empty: none were saved",
    }
    assert notes.get(state, "new games begin") in out
    loaded = state in {"newest", "older"}
    assert reports(second)[-1]["replays"]["1_standard"]["size"] == (40 if loaded else 20)
    assert (reports(second)[-1]["updates"] > saved.updates) == loaded


def test_saved_replays_are_kept_after_two_kills(
    tmp_path: Path, saved_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Replays are saved less often than checkpoints, so the loaded ones may be older. Two runs in a row are killed
    before they save replays of their own.
    """
    run = copy_of(saved_run, tmp_path)
    saved = find_checkpoint(str(run))
    saved.replay_path.rename(saved.replay_path.with_name(replay_name(saved.updates - 1)))
    with monkeypatch.context() as patched:
        patched.setattr(training, "training_loop", stop_at_once)
        for _ in range(2):
            run = resume_run(run, make_catch, environment_max_steps=1_200)
    last = resume_run(run, make_catch, environment_max_steps=1_200, console="plain")
    assert f"the replays are those of {replay_name(saved.updates - 1)}" in capsys.readouterr().out
    assert reports(last)[-1]["replays"]["1_standard"]["size"] == 40


def test_raw_replays_are_not_loaded_into_compressed_ones(saved_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = {"use_replay_compression": True, "lz4_compression_level": 3}
    second = resume_run(saved_run, make_catch, environment_max_steps=1_200, console="plain", **flags)
    out = capsys.readouterr().out
    assert "the replays start empty: the saved ones have another layout or other" in out
    assert "compressed\n" in out
    assert reports(second)[-1]["replays"]["1_standard"]["size"] == 20


def test_replays_with_other_reward_clipping_are_not_loaded(saved_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    resume_run(saved_run, make_catch, environment_max_steps=1_200, console="plain", reward_clipping_method="none")
    assert "the replays start empty: the saved ones were made with other options" in capsys.readouterr().out


def test_replays_that_are_newer_than_the_checkpoint_are_not_loaded(tmp_path: Path, saved_run: Path) -> None:
    """As where a run goes on from an earlier checkpoint than its last."""
    parent = find_checkpoint(str(copy_of(saved_run, tmp_path)))
    parent.replay_path.rename(parent.replay_path.with_name("replays_9999999999.bin"))
    config = Config.from_flags(parent.options)
    notes = Resume(parent, config, make_unroll_layout(config, make_catch), 1).notes()
    assert "the replays start empty: none were saved" in notes


def test_an_environment_option_that_an_older_version_did_not_have_counts_as_its_default(saved_run: Path) -> None:
    parent = find_checkpoint(str(saved_run))
    clipping = parent.content["options"].pop("reward_clipping_method")
    layout = make_unroll_layout(Config.from_flags(parent.options), make_catch)
    for value in (clipping, "none"):
        config = Config.from_flags({**parent.options, "reward_clipping_method": value})
        starts_empty = any(
            "other options of the environment" in note for note in Resume(parent, config, layout, 1).notes()
        )
        assert starts_empty == (value == "none")


def test_saved_replays_are_loaded_with_another_batch_size(saved_run: Path) -> None:
    """Only the queues start empty, because their sizes depend on the batch size."""
    run, updates = saved_run, find_checkpoint(str(saved_run)).updates
    for batch_size, steps in ((4, 1_400), (16, 1_800), (16, 2_200)):  # smaller, larger, the same
        run = resume_run(run, make_catch, environment_max_steps=steps, batch_size=batch_size)
        last = reports(run)[-1]
        assert last["replays"]["1_standard"]["size"] == 40
        assert last["updates"] > updates
        updates = last["updates"]


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
        ("environment_max_steps", 1_000),
    ],
)
def test_options_that_cannot_change_are_refused_in_one_sentence(saved_run: Path, flag: str, value: object) -> None:
    folders = set(saved_run.parent.iterdir())
    with pytest.raises(UsageError, match=rf"^--{flag}={value} .*\.$"):
        resume_run(saved_run, make_catch, **{"environment_max_steps": 2_000, flag: value})
    assert set(saved_run.parent.iterdir()) == folders


def test_the_command_line_takes_precedence_over_the_checkpoint_and_that_over_the_defaults(saved_run: Path) -> None:
    saved = find_checkpoint(str(saved_run))
    words = ["--op_mode=train_w_load", f"--load_model_url={saved_run}", "--environment_max_steps=1400", "--lr=0.125"]
    config = parse(words, saved.options)
    assert config.optimizer.lr == 0.125
    assert config.workers.envs_per_worker == 8
    assert config.loss == Config().loss
    child = find_checkpoint(str(train(config, make_catch, saved)))
    assert child.options == {**saved.options, "environment_max_steps": 1_400, "lr": 0.125}


# --- Failures ---------------------------------------------------------------------------------------------------------


class BreakingCatch(Catch):
    """Fails after 25 steps, and from then on in every process."""

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


def make_breaking_catch(options: EnvironmentOptions, seed: int, watch: object = None) -> gymnasium.Env[Any, Any]:
    return FrameStack(ScoreKeeper(BreakingCatch(seed)), options.frames_stacked)


@pytest.mark.parametrize("reproducible", [False, True])
def test_a_run_whose_workers_keep_failing_saves_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reproducible: bool
) -> None:
    monkeypatch.setenv("BREAKING_CATCH", str(tmp_path / "broken"))
    flags = {"reproducible": reproducible, "results_dir": str(tmp_path / "results"), "worker_restart_budget": 0}
    with pytest.raises(WorkersFailedError, match="broken"):
        train(Config.from_flags({**CATCH, **flags}), make_breaking_catch)
    (folder,) = (tmp_path / "results").iterdir()
    # Each environment played two unrolls; unrolls that no batch needed before the error are not received.
    assert find_checkpoint(str(folder)).agent_steps in ({160} if reproducible else range(80, 161, 10))
    assert reports(folder) or reproducible


def test_a_full_disk_does_not_end_a_run(tmp_path: Path, start: Start) -> None:
    """A resource limit of the learner's process prevents it from enlarging files for a while."""
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
    assert find_checkpoint(str(folder)).updates > 0, "the last complete checkpoint is kept"
    learner.rlimit(psutil.RLIMIT_FSIZE, (-1, -1))
    assert printed("can be written again")
    children = learner.children(recursive=True)
    os.killpg(run.pid, signal.SIGINT)
    out = finish(run)
    assert "stopped at" in out and "Traceback" not in out
    assert out.splitlines()[-1].startswith("go on with: ")
    assert not psutil.wait_procs(children, timeout=30)[1]
    steps = [report["agent_steps"] for report in reports(folder)]
    gaps = [after - before for before, after in pairwise([0, *steps])]
    assert len(gaps) > 2
    assert max(gaps) <= 100 + 2 * 5, "a report is missing: there is one per period, after the update that completes it"
    assert find_checkpoint(str(folder)).agent_steps == steps[-1]
