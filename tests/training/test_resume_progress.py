"""Counters, schedule and best checkpoint of resumed runs continue those of their parents."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from option_flags import Config, OptimizerOptions
from options.presets import FRESH_ALONE
from run_files.checkpoint import Checkpoint, find_checkpoint, read_checkpoint, write_checkpoint
from run_files.run_folder import BEST
from tests.catch import make_catch
from tests.training.catch_runs import catch_run, reports, resume_run
from tests.training.resumed_runs import ending_at, games, stop_at_once
from training import run as run_module
from training import train as training
from training.resume import plan_updates

pytestmark = pytest.mark.slow


def test_a_run_that_stops_before_its_first_unroll_saves_its_own_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own options with its parent's plan would give a learning rate of 0, and draws of the parent's replays."""
    parent = catch_run(tmp_path, environment_max_steps=1_000, lr_scheduler_steps=0)
    with monkeypatch.context() as patched:
        patched.setattr(training, "training_loop", stop_at_once)
        child = resume_run(parent, make_catch, environment_max_steps=2_000, replay_parameters=FRESH_ALONE)
    grandchild = resume_run(child, make_catch)
    plans = [json.loads((run / "config.json").read_text())["planned_updates"] for run in (parent, child, grandchild)]
    assert plans[0] < plans[1] == plans[2]
    assert reports(child) == []
    steps = [report["agent_steps"] for report in reports(parent) + reports(grandchild)]
    assert steps == sorted(set(steps)), "an interval was reported twice"
    rates = [report["learning_rate"] for report in reports(grandchild)]
    assert len(rates) > 1 and min(rates) > 0.0


def test_counters_schedule_and_best_continue_without_a_jump(saved_run: Path) -> None:
    first, saved = saved_run, find_checkpoint(str(saved_run))
    second = resume_run(first, make_catch, environment_max_steps=2_000, lr_warmup_updates=0)
    before, after = reports(first)[-1], reports(second)[0]
    assert saved.agent_steps == before["agent_steps"] == 1_000
    assert 1_400 <= after["agent_steps"] < 1_440
    assert after["frames"] == 4 * after["agent_steps"]
    assert after["episodes"] == after["agent_steps"] // 5, "a game of Catch takes 5 steps"
    assert 0 < after["updates"] - before["updates"] <= 11
    assert after["seconds"] > before["seconds"]
    assert after["return_max"] == before["return_max"] == 1
    played = [float(line.split(",")[1]) for line in games(first, second)[: int(after["episodes"])]]
    assert [game["return"] for game in saved.content["progress"]["recent_games"]] == played[100:200]
    assert after["return_mean"] == pytest.approx(sum(played[-100:]) / 100)
    middle = (before["updates"] + after["updates"] - 1) / 2
    assert after["learning_rate"] == pytest.approx(OptimizerOptions().lr * (1 - middle / 500))

    best, carried = (read_checkpoint(folder / "checkpoints" / BEST) for folder in (first, second))
    last = find_checkpoint(str(second))
    scores = [checkpoint.content["progress"]["best_return_mean"] for checkpoint in (best, carried, last)]
    assert scores[0] <= scores[1] == scores[2], "best.pt is the checkpoint with the best mean return"


def test_a_checkpoint_elsewhere_does_not_take_the_best_file_beside_it(tmp_path: Path, saved_run: Path) -> None:
    """In a folder of downloads, it is that of another run or program."""
    saved = find_checkpoint(str(saved_run))
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    shutil.copy(saved.path, downloads)
    progress = {**saved.content["progress"], "best_return_mean": 440.0}
    write_checkpoint(downloads / BEST, {**saved.content, "progress": progress})
    second = resume_run(downloads / saved.path.name, make_catch, results_dir=str(tmp_path), environment_max_steps=2_000)
    best = find_checkpoint(str(second)).content["progress"]["best_return_mean"]
    assert best < 440, "it has begun anew"
    assert read_checkpoint(second / "checkpoints" / BEST).content["progress"]["best_return_mean"] == best


def test_the_first_run_fixes_the_schedule_and_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run keeps both, even with another learning rate."""
    with monkeypatch.context() as patched:
        patched.setattr(run_module, "Progress", ending_at(500))
        first = catch_run(tmp_path, environment_max_steps=1_000, lr_scheduler_steps=0, seed=None)
    fixed = find_checkpoint(str(first))
    assert fixed.options["seed"] is not None
    assert fixed.content["planned_updates"] == (1_000 // 10 - 4) // 4, "the warm-up takes a tenth of the replay"
    second = find_checkpoint(str(resume_run(first, make_catch, lr=1e-4)))
    assert {name for name, value in fixed.options.items() if value != second.options[name]} == {"lr"}
    assert second.content["planned_updates"] == fixed.content["planned_updates"]
    config = json.loads((second.run_folder / "config.json").read_text())
    assert config["planned_updates"] == fixed.content["planned_updates"]


def test_a_run_with_more_steps_than_its_parent_gets_a_new_schedule(tmp_path: Path) -> None:
    """The parent's learning rate has fallen to almost 0; the longer schedule raises it again."""
    first = catch_run(tmp_path, environment_max_steps=1_000, lr_scheduler_steps=0)
    assert reports(first)[-1]["learning_rate"] < OptimizerOptions().lr / 5
    second = resume_run(first, make_catch, environment_max_steps=2_000, lr_warmup_updates=0)
    before, after = find_checkpoint(str(first)), find_checkpoint(str(second))
    assert after.content["planned_updates"] == before.updates + 1_000 // (4 * 10)
    first_report = reports(second)[0]
    middle = (before.updates + first_report["updates"] - 1) / 2
    rate = OptimizerOptions().lr * (1 - middle / after.content["planned_updates"])
    assert first_report["learning_rate"] == pytest.approx(rate), (
        "the mean over its own updates, without those that the parent reported"
    )
    assert after.updates == pytest.approx(after.content["planned_updates"], abs=1)


def with_options(saved: Checkpoint, **options: Any) -> Checkpoint:
    return Checkpoint(saved.path, {**saved.content, "options": {**saved.options, **options}})


@pytest.mark.parametrize("given", [500, 0])
def test_a_given_schedule_is_kept(given: int, saved_run: Path) -> None:
    parent = with_options(find_checkpoint(str(saved_run)), lr_scheduler_steps=given)
    planned = int(parent.content["planned_updates"])
    config = Config.from_flags(parent.options)
    assert plan_updates(parent, config) == (planned, given or planned)
    new_plan, schedule = plan_updates(parent, config.replace_flags(environment_max_steps=10_000))
    assert new_plan > 4 * planned
    assert schedule == (given or new_plan)


def test_updates_of_fewer_steps_get_a_new_schedule(saved_run: Path) -> None:
    """Otherwise the learning rate of the last steps would be 0."""
    saved = find_checkpoint(str(saved_run))
    parent = with_options(saved, lr_scheduler_steps=0, environment_max_steps=saved.agent_steps + 8_000)
    options = parent.options
    planned = int(parent.content["planned_updates"])
    assert plan_updates(parent, Config.from_flags({**options, "lr": 0.1})) == (planned, planned)
    for flags, steps_per_update in (
        ({"batch_size": 4}, 20),
        ({"r_f_steps": 5}, 20),
        ({"replay_parameters": FRESH_ALONE}, 80),
    ):
        expected = parent.updates + 8_000 // steps_per_update
        assert plan_updates(parent, Config.from_flags({**options, **flags})) == (expected, expected)


def test_the_results_of_another_environment_do_not_count(saved_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (saved_run / "checkpoints" / BEST).exists()
    second = resume_run(saved_run, make_catch, environment_max_steps=1_010, max_game_frames=400, console="plain")
    assert "mean returns begin anew: the environment has other options" in capsys.readouterr().out
    assert not (second / "checkpoints" / BEST).exists(), "there were too few games for a best one"
    progress = find_checkpoint(str(second)).content["progress"]
    assert len(progress["recent_games"]) < 20 and progress["best_return_mean"] is None
    assert progress["episodes"] >= 200, "the counters go on"
