"""Runs in whose games nothing is ever scored."""

from pathlib import Path
from typing import Any

import gymnasium
import pytest

from option_flags import Config, EnvironmentOptions
from tests.catch import Catch, Picture, make_catch
from tests.training.catch_runs import CATCH, resume_run
from training.train import train
from wrappers.atari import ScoreKeeper

pytestmark = pytest.mark.slow


class PointlessCatch(Catch):
    """Catch without its rewards."""

    def step(self, action: int) -> tuple[Picture, float, bool, bool, dict[str, Any]]:
        picture, _, terminated, truncated, info = super().step(action)
        return picture, 0.0, terminated, truncated, info


def make_pointless_catch(options: EnvironmentOptions, seed: int, watch: object = None) -> gymnasium.Env[Any, Any]:
    return ScoreKeeper(PointlessCatch(seed))


def test_the_last_lines_say_so_until_a_game_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = {**CATCH, "results_dir": str(tmp_path), "console": "plain", "environment_max_steps": 400}
    first = train(Config.from_flags(flags), make_pointless_catch)
    assert "each of the 80 games so far ended with a return of 0" in capsys.readouterr().out
    second = resume_run(first, make_pointless_catch, environment_max_steps=800)
    assert "each of the 160 games so far ended with a return of 0" in capsys.readouterr().out
    resume_run(second, make_catch, environment_max_steps=1_200)
    assert "a return of 0" not in capsys.readouterr().out
