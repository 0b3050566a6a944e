"""Which counters and best results of its parent a resumed run takes over."""

import json
from pathlib import Path
from typing import Any

import pytest

from option_flags import Config
from run_files.checkpoint import Checkpoint, checkpoint_name
from run_files.run_folder import CHECKPOINTS
from tests.run_files.some_checkpoint import some_content, some_progress
from training.resume import inherited_progress

BEST = {"best_return_mean": 3.0, "best_return_steps": 800, "best_eval_mean": 2.0, "evaluated_steps": 600}
FLAGS: dict[str, Any] = {"eval_period": 300}


def inherited(folder: Path, place: str = CHECKPOINTS, **flags: Any) -> dict[str, Any]:
    """By a run with these flags, from a checkpoint after 1,000 steps, when the 900th was evaluated last."""
    run = folder / "run"
    run.mkdir(exist_ok=True)
    (run / "evaluations.jsonl").write_text(json.dumps({"agent_steps": 900, "best_eval_return_mean": 5.0}) + "\n")
    progress = {**some_progress(1_000, 10), **BEST, "interval": {"updates": 3}}
    content = some_content(options=Config.from_flags(FLAGS).flags(), progress=progress)
    return inherited_progress(Checkpoint(run / place / checkpoint_name(10), content), Config.from_flags(FLAGS | flags))


def test_evaluations_count_that_ended_after_the_checkpoint(tmp_path: Path) -> None:
    found = inherited(tmp_path)
    assert {name: found[name] for name in BEST} == {**BEST, "best_eval_mean": 5.0, "evaluated_steps": 900}
    assert found["agent_steps"] == 1_000 and len(found["recent_games"]) == 2


@pytest.mark.parametrize("flags", [{"eval_period": 200}, {"noop_threshold": 0}])
def test_nothing_is_due_at_the_start_of_a_run_with_other_evaluations(tmp_path: Path, flags: dict[str, Any]) -> None:
    assert inherited(tmp_path, **flags)["evaluated_steps"] == 1_000


def test_the_results_of_another_environment_or_place_do_not_count(tmp_path: Path) -> None:
    """Best files beside a checkpoint that is not in a run may be of another one."""
    environment, place = inherited(tmp_path, noop_threshold=0), inherited(tmp_path, place="downloads")
    for found in (environment, place):
        assert {found[name] for name in ("best_return_mean", "best_return_steps", "best_eval_mean")} == {None}
    assert not environment["recent_games"] and len(place["recent_games"]) == 2


def test_the_interval_between_reports_goes_on_only_where_runs_are_equal(tmp_path: Path) -> None:
    assert inherited(tmp_path, reproducible=True)["interval"] == {"updates": 3}
    assert inherited(tmp_path)["interval"] is None
