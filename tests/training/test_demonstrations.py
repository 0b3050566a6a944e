"""Recorded games: as unrolls, as the start of a run, and as a share of its batches."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from agents.acting import Actor
from agents.distributions import distribution_of
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from agents.training_batch import rebuild_stacks
from evaluation.parallel_games import evaluation_options
from evaluation.recorded_games import RecordedGame, read_games, write_game
from evaluation.score_checkpoint import score_checkpoint
from option_flags import Config, EnvironmentOptions
from options.presets import FRESH_ALONE
from options.rules import UsageError
from run_files.checkpoint import find_checkpoint
from tests.catch import make_catch
from tests.options.words import one_line, parse
from tests.training.catch_runs import CATCH, catch_run, reports, resume_run
from tests.training.resumed_runs import assert_same_run, ending_at
from training import demonstrations
from training import run as run_module
from training.demonstrations import unrolls_of
from training.train import train
from workers.policies import LocalPolicy
from workers.rollout import Rollout, SeededEnvironment
from wrappers.atari import ScoreKeeper
from wrappers.environment import MakeEnvironment, Watch
from wrappers.make_environment import make_environment

WITH_DEMONSTRATIONS = json.dumps(
    [
        {"type": "queue", "capacity": 1, "sample_ratio": 0.5},
        {"type": "demonstrations", "capacity": 30, "sample_ratio": 0.5},
    ]
)
RIGHT_KEYS = (3, 1, 0, 2, 2, 1, 3, 0)


class Lock(gymnasium.Env[Any, int]):
    """Eight keys in a row, one of four each, open it and give 1. A wrong key ends the game: chance never opens it.

    A picture has a bright column for each key that was right.
    """

    def __init__(self, seed: int) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 255, (36, 36), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(4)  # type: ignore[assignment]
        super().reset(seed=seed)

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.opened = 0
        return self._picture(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        is_right = action == RIGHT_KEYS[self.opened]
        self.opened += is_right
        is_open = self.opened == len(RIGHT_KEYS)
        return self._picture(), float(is_open), is_open or not is_right, False, {}

    def lives(self) -> int:
        return 0

    def _picture(self) -> Any:
        picture = np.zeros((36, 36), np.uint8)
        picture[:, : 4 * self.opened] = 255
        return picture


def make_lock(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
    return ScoreKeeper(Lock(seed))


OPENS = RecordedGame(evaluation_options(EnvironmentOptions()), 7, np.array(RIGHT_KEYS), 1.0)


def as_played(env: str, steps: int, make: MakeEnvironment = make_environment, **flags: Any) -> None:
    """The unrolls of a recorded game are those of a rollout that took the same actions."""
    config = Config.from_flags({"env": env, "r_f_steps": 7, "network": "auto", **flags})
    torch.manual_seed(0)
    layout = make_unroll_layout(config, make)
    actor = Actor(ActorCritic(config.network, layout, torch.float32))
    environment = SeededEnvironment(make(config.environment, 5), 0, np.random.default_rng(0))
    rollout = Rollout([environment], LocalPolicy(actor, layout, 1), layout)
    rows = np.zeros((steps // 7, 1, layout.nbytes), np.uint8)
    for row in rows:
        rollout.collect(row)
    played = layout.arrays(rows[:, 0])
    actions = played["actions"].reshape(-1, *layout.action_shape)
    game = RecordedGame(evaluation_options(config.environment), 5, actions, None)
    again = make(game.options, 0)
    own = config.environment
    found = layout.arrays(unrolls_of(game, again, layout, 0.9, own.episodic_life))
    assert found["dones"].sum() == played["dones"].sum() + 1 - played["dones"][-1, -1]
    assert found["dones"][-1, -1]  # nothing is known of what came after the last action
    if layout.has_pictures:
        stacks, others = (
            rebuild_stacks(torch.tensor(fields["frames"]), torch.tensor(fields["dones"])) for fields in (found, played)
        )
        assert torch.equal(stacks[:-1], others[:-1]) and torch.equal(stacks[:, :-1], others[:, :-1])
    for name in ("actions", "rewards", "first_action", "first_reward"):
        np.testing.assert_array_equal(found[name], played[name])
    np.testing.assert_array_equal(found["dones"].flat[:-1], played["dones"].flat[:-1])
    if layout.vector_length:
        np.testing.assert_array_equal(found["vectors"][:, :-1], played["vectors"][:, :-1])
    expected, following = [], 0.0
    for reward, done in zip(found["rewards"].flat[::-1], found["dones"].flat[::-1], strict=True):
        following = reward + 0.9 * following * (not done)
        expected.append(following)
    np.testing.assert_allclose(found["values"].flat[::-1], expected, rtol=1e-5)
    policy = distribution_of(layout)
    taken = torch.from_numpy(found["actions"])
    logits = torch.from_numpy(found["behaviour_logits"])
    torch.testing.assert_close(policy.most_likely(logits), taken, check_dtype=False)
    assert policy.entropy(logits).max() < 0.2


@pytest.mark.slow
def test_unrolls_of_a_game_with_lives() -> None:
    as_played("BreakoutNoFrameskip-v4", 105)


@pytest.mark.slow
@pytest.mark.parametrize("env", ["MountainCar-v0", "Pendulum-v1"], ids=["choices", "real numbers"])
def test_unrolls_of_other_environments(env: str) -> None:
    as_played(env, 70, frames_stacked=1)


def test_a_short_game_fills_its_unroll_again_and_again() -> None:
    config = Config.from_flags({**CATCH, "r_f_steps": 20})
    layout = make_unroll_layout(config, make_lock)
    fields = layout.arrays(unrolls_of(OPENS, make_lock(OPENS.options, 0), layout, 0.5, True))
    assert fields["actions"].tolist() == [[*RIGHT_KEYS, *RIGHT_KEYS, *RIGHT_KEYS[:4]]]
    assert fields["values"][0].tolist() == [0.5 ** (7 - t % 8) for t in range(20)]
    assert np.flatnonzero(fields["dones"]).tolist() == [7, 15]


def demonstrated(folder: Path, game: RecordedGame = OPENS) -> str:
    folder.mkdir(exist_ok=True)
    write_game(folder, game)
    return str(folder)


@pytest.mark.slow
def test_one_demonstration_opens_what_random_play_never_opens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = {**CATCH, "results_dir": str(tmp_path), "environment_max_steps": 800, "replay_parameters": FRESH_ALONE}
    alone = reports(train(Config.from_flags(flags), make_lock))[-1]
    assert alone["return_max"] == 0
    shown = {"demonstrations": demonstrated(tmp_path / "games"), "pretrain_updates": 100, "console": "plain"}
    taught = reports(train(Config.from_flags({**flags, **shown}), make_lock))
    assert "pretraining with 1 unroll of recorded games: 100 updates" in capsys.readouterr().out
    assert taught[0]["return_mean"] > 0.5
    assert taught[-1]["updates"] == alone["updates"], "updates before the first step do not count"
    kept = {"replay_parameters": WITH_DEMONSTRATIONS, "pretrain_updates": 0, "environment_max_steps": 3_000}
    beside = reports(train(Config.from_flags({**flags, **shown, **kept}), make_lock))[-1]
    assert beside["replays"]["1_demonstrations"]["size"] == 4, "as many as its share, however few there are"
    assert beside["return_max"] == 1


@pytest.mark.slow
def test_a_test_records_games_for_a_run_that_equals_itself_after_a_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = catch_run(tmp_path, environment_max_steps=400)
    games = tmp_path / "games"
    words = ("--op_mode=test", f"--load_model_url={first}", "--test_episode_count=12", "--console=off")
    checkpoint = find_checkpoint(str(first))
    score_checkpoint(parse([*words, f"--demonstrations={games}"], checkpoint.played_options), make_catch, checkpoint)
    found = read_games(str(games))
    assert len(found) == 12
    assert {game.return_ for game in found.values()} <= {-1.0, 1.0}
    assert all(f"return{game.return_:.0f}" in name for name, game in found.items())
    flags = {
        **{"demonstrations": str(games), "pretrain_updates": 20, "reproducible": True},
        **{"replay_parameters": WITH_DEMONSTRATIONS, "environment_max_steps": 800},
    }
    whole = catch_run(tmp_path, **flags)
    with monkeypatch.context() as patched:
        patched.setattr(run_module, "Progress", ending_at(400))
        part = catch_run(tmp_path, **flags)
    assert_same_run(whole, part, resume_run(part, make_catch))
    assert reports(whole)[-1]["replays"]["1_demonstrations"]["size"] == 12


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"return": 5.0}, "is another game when it is played again"),
        ({"return": None}, "is another game when it is played again"),
        ({"actions": [*RIGHT_KEYS, 0]}, "is another game when it is played again"),
        ({"actions": list(RIGHT_KEYS[:3])}, "is another game when it is played again"),
        ({"actions": [3, 1, 4]}, "has an action that --env=PongNoFrameskip-v4 has not"),
        ({"actions": [0.5]}, "has an action that --env=PongNoFrameskip-v4 has not"),
        ({"actions": []}, "is no recorded game: it has no actions"),
        ({"actions": [[1], [1, 2]]}, "is no recorded game"),
        ({"seed": -1}, "its seed must be a whole number"),
        ({"environment": {"env": 3}}, "is no recorded game: --env must be an id"),
        ({"environment": {"skipped_frames": 2}}, "has --skipped_frames=2, and the run --skipped_frames=4"),
        (
            {"environment": {"env": "BreakoutNoFrameskip-v4"}},
            "has --env=BreakoutNoFrameskip-v4, and the run --env=Pong",
        ),
    ],
    ids=str,
)
def test_a_game_that_does_not_fit_is_refused_before_anything_is_made(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    folder = Path(demonstrated(tmp_path / "games"))
    (path,) = folder.iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    flags = {**CATCH, "demonstrations": str(folder), "results_dir": str(tmp_path / "results")}
    with pytest.raises(UsageError) as refused:
        train(Config.from_flags(flags), make_lock)
    assert sentence in one_line(refused.value) and path.name in str(refused.value)
    assert not (tmp_path / "results").exists()


def test_games_that_do_not_fit_into_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstrations, "usable_memory", lambda: 1000)
    flags = {**CATCH, "demonstrations": demonstrated(tmp_path / "games"), "results_dir": str(tmp_path / "results")}
    with pytest.raises(UsageError) as refused:
        train(Config.from_flags(flags), make_lock)
    assert "games needs more than the 0.0 MiB of memory" in one_line(refused.value)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", ""), (b"{", ""), (b"[]", ""), (b"\xff", ""), (b"{}", ": it has no 'actions'")],
)
def test_what_is_no_recorded_game_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(UsageError, match="has no recorded games; --op_mode=play would"):
        read_games(str(tmp_path / "missing"))
    (tmp_path / "game.json").write_bytes(content)
    with pytest.raises(UsageError, match=rf"game\.json is no recorded game{why}") as refused:
        read_games(str(tmp_path))
    one_line(refused.value)


def test_a_game_is_read_as_it_was_written(tmp_path: Path) -> None:
    own = Config.from_flags({"env": "ALE/Pong-v5"}).environment
    games = [OPENS, RecordedGame(own, 0, np.array([[0.1, -2.5]], np.float32), None)]
    paths = [write_game(tmp_path, game) for game in games]
    assert paths[0].name.endswith("_return1.json") and paths[1].name.endswith("_unfinished.json")
    for game, path in zip(games, paths, strict=True):
        found = read_games(str(tmp_path))[path.name]
        assert (found.options, found.seed, found.return_) == (game.options, game.seed, game.return_)
        np.testing.assert_array_equal(found.actions.astype(game.actions.dtype), game.actions)


def test_a_game_that_a_time_limit_ended_is_taken_to_go_on() -> None:
    config = Config.from_flags({"env": "MountainCar-v0", "env_kwargs": '{"max_episode_steps": 10}', "r_f_steps": 7})
    layout, again = make_unroll_layout(config, make_environment), make_environment(config.environment, 0)
    game = RecordedGame(evaluation_options(config.environment), 5, np.zeros(10, np.int64), -10.0)
    fields = layout.arrays(unrolls_of(game, again, layout, 0.9, False))
    assert np.flatnonzero(fields["dones"]).tolist() == np.flatnonzero(fields["bootstraps"]).tolist() == [9]
    np.testing.assert_allclose(fields["bootstraps"][1, 2], -10.0, rtol=1e-5)  # −1 for each step, without end
    np.testing.assert_allclose(fields["values"], -10.0, rtol=1e-5)
