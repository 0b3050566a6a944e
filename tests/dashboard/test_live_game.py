"""The agent plays live: what a picture shows, newer checkpoints, and the end of the process."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from agents.acting import Actor
from agents.network import ActorCritic
from agents.spaces import described_spaces, make_unroll_layout
from dashboard.children import MOST_AT_ONCE, LiveGame, LivePicture
from dashboard.live_game import GamePlayer
from dashboard.results import PageError
from evaluation.parallel_games import GameResult, GameSeries, ParallelGames, evaluation_options
from option_flags import Config, EnvironmentOptions
from options.rules import UsageError
from run_files.checkpoint import InvalidCheckpointError, find_checkpoint, write_checkpoint
from tests.catch import make_catch
from tests.dashboard.some_runs import write_policy
from tests.processes import spawned
from tests.watched import keeping_pictures
from tests.wrappers.hand_written import CATCH, CHANNELS
from wrappers.atari import make_atari
from wrappers.environment import Watch
from wrappers.make_environment import make_environment

PONG = {"env": "PongNoFrameskip-v4"}
SECONDS = 200.0  # longest wait


@pytest.fixture
def children() -> Iterator[list[LiveGame]]:
    """Processes that are closed at the end of the test."""
    opened: list[LiveGame] = []
    yield opened
    for child in opened:
        child.close()
    wait_for(lambda: not spawned())


def decoded(png: bytes | None) -> Any:
    assert png is not None
    return cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED)


def game_player(
    folder: Path, make: Any = make_catch, chosen: str | None = None, root: Path | None = None
) -> GamePlayer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dashboard.live_game.make_environment", make)
        return GamePlayer(folder, root or folder, chosen, 3)


@pytest.mark.parametrize("lstm", [False, True], ids=["plain", "lstm"])
def test_the_live_game_is_the_game_of_a_test(tmp_path: Path, lstm: bool) -> None:
    """With the same seed, step by step: observations, the state of the LSTM and episodes are right."""
    flags = {"frames_stacked": 2, "use_lstm": lstm, "lstm_size": 16}
    write_policy(tmp_path, make_catch, 7, **flags)
    player = game_player(tmp_path)
    scores: list[float] = []
    values: list[float] = []
    while len(scores) < 8:
        player.step()
        picture = player.picture(with_saliency=False)
        scores = list(picture.scores)
        values += [value for _, value in picture.values]

    config = Config.from_flags(flags)
    network = ActorCritic(config.network, make_unroll_layout(config, make_catch), torch.float32)
    layout = make_unroll_layout(config, make_catch)
    network.load_saved(find_checkpoint(str(tmp_path)).content["learner"]["network"])
    environment = evaluation_options(config.environment)
    series = GameSeries(make_environment=make_catch, environment=environment, seed=(3,), logged=8)
    games = ParallelGames(series, Actor(network), layout)
    expected: list[GameResult] = []
    for game in range(8):
        games.start(game)
        while games.running:
            expected += games.step()
    assert scores == [result.return_ for result in expected]
    expected_values = np.concatenate([result.log.values for result in expected if result.log is not None])
    assert values == pytest.approx(expected_values.tolist())
    assert len(set(scores)) == 2, "the games must differ"


@pytest.mark.parametrize(
    "interaction",
    [{}, {"interaction": "realtime"}, {"interaction": "asynchronous", "action_delay": 6}],
    ids=["turns", "realtime", "asynchronous"],
)
@pytest.mark.slow
def test_a_picture_shows_the_game_and_the_network(tmp_path: Path, interaction: dict[str, Any]) -> None:
    """A policy that was trained in real time is shown in a game that waits for it."""
    write_policy(tmp_path, make_atari, 7, **PONG, **interaction)
    player = game_player(tmp_path, make_atari)
    for _ in range(30):
        player.step()
    picture = player.picture(with_saliency=True)
    assert decoded(picture.screen).shape == (210, 160, 3)
    assert decoded(picture.stack).shape == (84, 4 * 84)
    assert (decoded(picture.seen) == decoded(picture.stack)[:, -84:]).all()
    assert picture.salient is not None and decoded(picture.salient).shape == (84, 84, 4)
    assert picture.actions == ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")
    assert sum(picture.bars) == pytest.approx(1, abs=1e-5) and len(picture.bars) == picture.choices == 6
    assert [round(seconds * 15) for seconds, _ in picture.values] == list(range(31))
    assert (picture.checkpoint, picture.agent_steps) == ("checkpoint_0000000007.pt", 700)
    again = player.picture(with_saliency=False)
    assert again.values == () and again.salient is None and again.screen == picture.screen
    player.step()
    assert decoded(player.picture(with_saliency=False).stack)[:, :-84].tolist() == decoded(again.stack)[:, 84:].tolist()


def test_two_pictures_are_laid_over_each_other_but_not_those_of_two_games(tmp_path: Path) -> None:
    """An Atari game may draw a thing in every other frame."""
    played: list[Any] = []
    write_policy(tmp_path, make_catch, 7, frames_stacked=1)
    player = game_player(tmp_path, keeping_pictures(make_catch, played))
    for _ in range(12):
        picture = player.picture(with_saliency=False)
        assert (decoded(picture.screen) == np.maximum.reduce(played[-2:])).all()
        player.step()
    assert len(picture.scores) >= 2


def test_newer_checkpoints_are_followed(tmp_path: Path) -> None:
    write_policy(tmp_path, make_catch, 7, frames_stacked=1)
    player = game_player(tmp_path)
    before = player.picture(with_saliency=False)
    assert before.agent_steps == 700
    write_policy(tmp_path, make_catch, 9, frames_stacked=1)
    player.follow()
    player.step()
    picture = player.picture(with_saliency=False)
    assert picture.agent_steps == 900
    assert picture.bars != before.bars


def test_a_checkpoint_of_other_observations_is_not_blamed(tmp_path: Path) -> None:
    """The environment's package, or the user's own module, has changed."""
    write_policy(tmp_path, make_catch, 7, frames_stacked=1)
    path = tmp_path / "checkpoints" / "checkpoint_0000000007.pt"
    content = find_checkpoint(str(path)).content
    spaces = {**described_spaces(make_unroll_layout(Config(), make_catch)), "frame_stack": 7}
    write_checkpoint(path, {**content, "spaces": spaces})
    with pytest.raises(UsageError, match="has other observations .*frame_stack is 1 instead of 7"):
        game_player(tmp_path)


@pytest.mark.parametrize("chosen", [None, "checkpoint_0000000007.pt"])
def test_a_link_to_a_checkpoint_elsewhere_is_not_played(tmp_path: Path, chosen: str | None) -> None:
    path = write_policy(tmp_path / "outside", make_catch, 7, frames_stacked=1)
    (tmp_path / "results" / "checkpoints").mkdir(parents=True)
    (tmp_path / "results" / "checkpoints" / path.name).symlink_to(path)
    with pytest.raises(InvalidCheckpointError, match=r"^There is no checkpoint to play\.$"):
        game_player(tmp_path / "results", chosen=chosen)
    with pytest.raises(InvalidCheckpointError, match=r"^none\.pt cannot be read \(No such file or directory\)\.$"):
        game_player(tmp_path / "results", chosen="none.pt")
    game_player(tmp_path / "results", chosen=chosen, root=tmp_path)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


def next_picture(game: LiveGame) -> LivePicture:
    """The newest of the next pictures."""
    end = time.monotonic() + SECONDS
    while not (found := game.new_pictures()):
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)
    return found[-1]


@pytest.mark.slow
def test_the_process_plays_in_real_time_at_the_lowest_priority_until_it_is_closed(
    tmp_path: Path, children: list[LiveGame]
) -> None:
    write_policy(tmp_path, make_atari, 7, **PONG)
    game = LiveGame(tmp_path, tmp_path, None)
    children.append(game)
    first = next_picture(game)
    (process,) = spawned()
    assert process.nice() == 19 and first.salient is None
    wait_for(lambda: next_picture(game).steps >= first.steps + 10)
    game.show_saliency(True)
    wait_for(lambda: next_picture(game).salient is not None)
    write_policy(tmp_path, make_atari, 8, **PONG)
    wait_for(lambda: next_picture(game).agent_steps == 800)
    game.close()
    wait_for(lambda: not process.is_running() and not spawned())


@pytest.mark.slow
def test_a_process_that_has_ended_is_noticed(tmp_path: Path, children: list[LiveGame]) -> None:
    write_policy(tmp_path, make_environment, 7, env=CATCH)
    children.append(LiveGame(tmp_path, tmp_path, None))
    next_picture(children[0])
    spawned()[0].kill()
    with pytest.raises(PageError, match=r"^The process of the live game has ended\.$"):
        wait_for(lambda: bool(children[0].new_pictures() and False))


@pytest.mark.slow
def test_what_cannot_be_played_is_said(tmp_path: Path, children: list[LiveGame]) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "best.pt").write_bytes(b"x")
    children.append(LiveGame(tmp_path, tmp_path, "best.pt"))
    with pytest.raises(PageError, match=r"^best\.pt is cut off, damaged, or not a checkpoint of this program\.$"):
        next_picture(children[-1])


@pytest.mark.slow
def test_only_some_run_at_once(tmp_path: Path, children: list[LiveGame]) -> None:
    children += [LiveGame(tmp_path, tmp_path, None) for _ in range(MOST_AT_ONCE)]
    with pytest.raises(PageError, match=r"4 agents play on other pages"):
        LiveGame(tmp_path, tmp_path, None)
    children[0].close()
    children.append(LiveGame(tmp_path, tmp_path, None))  # in its place


@pytest.mark.slow
def test_the_score_begins_with_the_first_step_of_the_agent(tmp_path: Path) -> None:
    """In Skiing, every frame of the random start has a reward."""
    scores: list[float] = []

    def make(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> Any:
        def both(screen: Any, score: float) -> None:
            scores.append(score)
            if watch is not None:
                watch(screen, score)

        return make_atari(options, seed, both)

    write_policy(tmp_path, make_atari, 7, env="SkiingNoFrameskip-v4")
    picture = game_player(tmp_path, make).picture(with_saliency=False)
    assert len(scores) > 5 and set(scores[:-4]) == {0.0}, "in the random start"
    assert picture.score == scores[-1] < 0, "of the four frames of the first step"


@pytest.mark.parametrize("channels", [1, 3, 10])
def test_pictures_of_any_number_of_channels_are_shown(tmp_path: Path, channels: int) -> None:
    """More than three are those of MinAtar: each has one kind of things."""
    write_policy(tmp_path, make_environment, 7, env=CHANNELS, env_kwargs=f'{{"channels": {channels}}}')
    player = game_player(tmp_path, make_environment)
    seen = decoded(player.picture(with_saliency=False).seen)
    assert seen.shape == ((12, 12, 3) if channels == 3 else (12, 12))
    assert seen[3, 4].max() == 200


def test_an_observation_without_pictures_is_shown_as_its_numbers(tmp_path: Path) -> None:
    write_policy(tmp_path, make_environment, 7, env="CartPole-v1")
    player = game_player(tmp_path, make_environment)
    picture = player.picture(with_saliency=True)
    assert picture.seen is picture.stack is picture.salient is None
    assert len(picture.vector) == 4 and any(picture.vector)
    assert decoded(picture.screen).shape == (400, 600, 3)
