"""The example of a Game Boy, with its small game."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

pytest.importorskip("pyboy")

from docs.examples.game_boy import GameBoy
from docs.examples.game_boy_game import cartridge
from option_flags import Config
from tests.training.catch_runs import reports, resume_run
from tests.training.resumed_runs import SMALL, assert_same_run
from training.train import train
from wrappers.make_environment import make_environment

BALL, PADDLE = 0xFE01, 0xFE05  # their columns, in the Game Boy's table of moving objects
NOTHING, LEFT, RIGHT = range(3)
FRAMES = 638  # of a game, after START


@pytest.fixture(scope="session")
def game(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The arguments of the environment, as in docs/environments.md."""
    rom = tmp_path_factory.mktemp("game_boy") / "catch.gb"
    rom.write_bytes(cartridge())
    names = {"buttons": ["", "left", "right"], "start": ["start"]}
    return {"rom": str(rom), "score": {"0xC000": 1}, "over": {"0xC001": 1}, **names}


def towards_the_ball(env: GameBoy) -> int:
    distance = env.emulator.memory[BALL] - env.emulator.memory[PADDLE] - 4
    return NOTHING if abs(distance) < 2 else RIGHT if distance > 0 else LEFT


def away_from_the_ball(env: GameBoy) -> int:
    return LEFT if env.emulator.memory[BALL] > 80 else RIGHT


def test_gymnasium_has_no_complaints(game: dict[str, Any]) -> None:
    check_env(gymnasium.make("GameBoy-v0", **game, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize(("player", "caught"), [(towards_the_ball, 10), (away_from_the_ball, 0)])
def test_a_game_has_ten_balls_and_each_that_is_caught_is_a_reward(
    game: dict[str, Any], player: Any, caught: int
) -> None:
    env = GameBoy(**game)
    env.reset(seed=3)
    steps = [env.step(player(env)) for _ in range(FRAMES)]
    assert sum(reward for _, reward, *_ in steps) == caught
    assert [terminated for _, _, terminated, *_ in steps] == [False] * (FRAMES - 1) + [True]


def test_a_named_function_gives_the_score_and_a_file_the_first_state(game: dict[str, Any], tmp_path: Path) -> None:
    env = GameBoy(**game)
    env.reset(seed=3)
    for _ in range(100):
        env.step(LEFT)
    (tmp_path / "in_the_middle.state").write_bytes(env.emulator_state())
    named = {**game, "score": f"{__name__}:paddle", "state": str(tmp_path / "in_the_middle.state"), "start": []}
    other = GameBoy(**named)
    other.reset(seed=3)
    assert other.emulator.memory[PADDLE] == env.emulator.memory[PADDLE] == 8
    assert [other.step(action)[1] for action in (RIGHT, RIGHT, LEFT, NOTHING)] == [2, 2, -2, 0]


def paddle(memory: Any) -> int:
    return int(memory[PADDLE])


def test_games_with_other_seeds_differ_and_those_with_the_same_do_not(game: dict[str, Any]) -> None:
    env, columns = GameBoy(**game), []
    for seed in (1, 2, 1):
        env.reset(seed=seed)
        columns.append([env.step(NOTHING) and env.emulator.memory[BALL] for _ in range(200)])
    assert columns[0] == columns[2] != columns[1]


@pytest.mark.slow
def test_a_run_in_parts_equals_the_whole_run_bit_for_bit(game: dict[str, Any], tmp_path: Path) -> None:
    """Its first part ends in the middle of games."""
    flags = {
        **SMALL,
        **{"env": "docs.examples.game_boy:GameBoy-v0", "env_kwargs": json.dumps(game), "skipped_frames": 40},
        **{"frame_scale_resolution": "18,20", "worker_count": 1, "envs_per_worker": 2},
        **{"reproducible": True, "results_dir": str(tmp_path)},
    }
    whole = train(Config.from_flags({**flags, "environment_max_steps": 180}), make_environment)
    part = train(Config.from_flags({**flags, "environment_max_steps": 95}), make_environment)
    assert_same_run(whole, part, resume_run(part, make_environment, environment_max_steps=180))
    assert reports(whole)[-1]["episodes"] > 6
