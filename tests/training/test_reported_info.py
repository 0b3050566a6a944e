"""Entries of an environment's `info` in the reports of a run."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from option_flags import Config, EnvironmentOptions
from replay.unroll_layout import UnrollLayout
from reports.panels import LEARNING, shown
from run_files.metrics import flat_numbers
from tests.catch import Catch, Picture
from tests.reports.rendering import as_lines
from tests.reports.statuses import STATUS, changed
from tests.training.catch_runs import CATCH, reports, resume_run
from tests.training.some_run import some_progress
from training.train import train
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.atari import ScoreKeeper
from wrappers.environment import environment_spec


class ToldCatch(Catch):
    """Catch that tells in which row the ball is, and at the end whether it was caught."""

    reported_info = ("caught", "row", "never")

    def step(self, action: int) -> tuple[Picture, float, bool, bool, dict[str, Any]]:
        picture, reward, terminated, truncated, _ = super().step(action)
        return picture, reward, terminated, truncated, {"row": self._row} | ({"caught": reward > 0} if reward else {})


def make_told_catch(options: EnvironmentOptions, seed: int, watch: object = None) -> gymnasium.Env[Any, Any]:
    return ScoreKeeper(ToldCatch(seed))


@pytest.mark.slow
def test_what_an_environment_tells_is_in_the_metrics(tmp_path: Path) -> None:
    flags = {**CATCH, "results_dir": str(tmp_path), "environment_max_steps": 800, "report_period": 400}
    folder = train(Config.from_flags({**flags, "reproducible": True}), make_told_catch)
    for report in reports(folder):
        told = report["environment"]
        assert told["row"] == 3.0 and told["never"] is None, "rows 1 to 5 in each game"
    rows = (folder / "episodes.csv").read_text().splitlines()[1:]
    late = [float(row.split(",")[1]) for row in rows if int(row.split(",")[0]) > 400]
    assert told["caught"] == pytest.approx((np.mean(late) + 1) / 2)
    (panel,) = shown(LEARNING, [name for name in flat_numbers(reports(folder)[-1]) if "environment" in name])
    assert [label for _, label in panel.figures] == ["caught", "row"]
    resumed = reports(resume_run(folder, make_told_catch, environment_max_steps=1_200))[-1]
    assert resumed["agent_steps"] == 1_200 and resumed["environment"]["row"] == 3.0


def test_the_display_shows_what_an_environment_tells() -> None:
    told = changed(STATUS, environment={"caught": 0.25, "never": None})
    lines = as_lines(told.view(79, []), 79)
    assert any(line.startswith("caught 0.2500  never —") for line in lines)
    assert not any("environment" in line for line in as_lines(STATUS.view(79, []), 79))


def test_a_resumed_run_continues_the_entries_of_its_interval() -> None:
    """Unless the environment reports others by now."""

    def progress(*names: str) -> Any:
        return some_progress(UnrollLayout(20, 1, (1, 4, 4), 2, reported_info=names))

    first, same, other = progress("a", "b"), progress("a", "b"), progress("c")
    first.interval.reported_info[:] = [[6.0, 3.0], [5.0, 2.0]]
    for resumed in (same, other):
        resumed.load_state_dict(first.state_dict(updates=0))
    assert same.figures()["environment"] == first.figures()["environment"] == {"a": 2.0, "b": 2.5}
    assert other.figures()["environment"] == {"c": None}
    assert "environment" not in some_progress().figures()


def test_environments_of_every_kind_say_what_is_reported() -> None:
    env = gymnasium.make("CartPole-v1")
    assert AnyEnvironment(env, Config().environment, 0).spec_for_agent.reported_info == ()
    env.unwrapped.reported_info = ("angle",)  # type: ignore[attr-defined]
    assert AnyEnvironment(env, Config().environment, 0).spec_for_agent.reported_info == ("angle",)
    assert environment_spec(make_told_catch(Config().environment, 0)).reported_info == ("caught", "row", "never")
