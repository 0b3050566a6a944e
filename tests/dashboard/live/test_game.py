"""The agent plays live: what a picture shows, newer checkpoints, and the end of the process."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import cv2
import gymnasium
import numpy as np
import psutil
import pytest
import torch

from agents.acting import Actor
from agents.network import make_network
from agents.spaces import described_spaces, make_unroll_layout
from dashboard import children
from dashboard.live import player as player_module
from dashboard.live.game import GamePlayer, LiveGame
from dashboard.live.picture import LivePicture
from dashboard.live.player import MOST_AT_ONCE, LiveGameEndedError, LivePlayer
from evaluation.parallel_games import GameResult, ParallelGames, evaluation_options
from option_flags import Config, EnvironmentOptions
from options.rules import UsageError
from processes.child import start_child
from run_files.checkpoint import InvalidCheckpointError, find_checkpoint, write_checkpoint
from tests.catch import make_catch
from tests.dashboard.some_runs import write_policy
from tests.processes import spawned
from tests.watched import keeping_pictures
from tests.wrappers.hand_written import CATCH, CHANNELS, Catch
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.atari import make_atari
from wrappers.environment import Watch
from wrappers.films import FilmFrames
from wrappers.make_environment import make_environment

PONG = {"env": "PongNoFrameskip-v4"}


@pytest.fixture
def players() -> Iterator[list[LivePlayer]]:
    """Players that are closed at the end of the test."""
    opened: list[LivePlayer] = []
    yield opened
    for player in opened:
        player.close()


def decoded(png: bytes) -> Any:
    return cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED)


def live_game(folder: Path, **more: Any) -> LiveGame:
    return LiveGame(
        **{"make_environment": make_catch, "folder": folder, "root": folder, "chosen": None, "seed": 3, **more}
    )


@pytest.mark.parametrize("lstm", [False, True], ids=["plain", "lstm"])
def test_the_live_game_is_the_game_of_a_test(tmp_path: Path, lstm: bool) -> None:
    """With the same seed, step by step: observations, the state of the LSTM and episodes are right."""
    flags = {"frames_stacked": 2, "use_lstm": lstm, "lstm_size": 16}
    write_policy(tmp_path, make_catch, 7, **flags)
    player = GamePlayer(live_game(tmp_path))
    scores: list[float] = []
    values: list[float] = []
    while len(scores) < 8:
        player.step()
        picture = player.picture(with_saliency=False)
        scores = list(picture.scores)
        values += [value for _, value in picture.values]

    config = Config.from_flags(flags)
    network = make_network(config.network, make_unroll_layout(config, make_catch), torch.float32)
    layout = make_unroll_layout(config, make_catch)
    network.load_saved(find_checkpoint(str(tmp_path)).content["learner"]["network"])
    games = ParallelGames(
        make_catch,
        evaluation_options(config.environment),
        Actor(network),
        layout,
        (3,),
        slots=1,
        greedy=False,
        logged=8,
    )
    expected: list[GameResult] = []
    for game in range(8):
        games.start(game)
        while games.running:
            expected += games.step()
    assert scores == [result.return_ for result in expected]
    expected_values = np.concatenate([result.log.values for result in expected if result.log is not None])
    assert values[:-1] == pytest.approx(expected_values.tolist()), "the last one is of the next game"
    assert len(set(scores)) == 2, "the games must differ"


@pytest.mark.parametrize(
    "interaction",
    [{}, {"interaction": "realtime"}, {"interaction": "asynchronous", "action_delay": 6}],
    ids=["turns", "realtime", "asynchronous"],
)
def test_a_picture_shows_the_game_and_the_network(tmp_path: Path, interaction: dict[str, Any]) -> None:
    """A policy that was trained in real time is shown in a game that waits for it."""
    write_policy(tmp_path, make_atari, 7, **PONG, **interaction)
    player = GamePlayer(live_game(tmp_path, make_environment=make_atari))
    for _ in range(30):
        player.step()
    picture = player.picture(with_saliency=True)
    assert decoded(picture.screen).shape == (210, 160, 3)
    assert decoded(picture.stack).shape == (84, 4 * 84)
    assert (decoded(picture.seen) == decoded(picture.stack)[:, -84:]).all()
    assert picture.salient is not None and decoded(picture.salient).shape == (84, 84, 4)
    assert picture.actions == ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")
    assert sum(picture.probabilities) == pytest.approx(1, abs=1e-5) and len(picture.probabilities) == 6
    assert [round(seconds * 15) for seconds, _ in picture.values] == list(range(31))
    assert (picture.checkpoint, picture.agent_steps) == ("checkpoint_0000000007.pt", 700)
    again = player.picture(with_saliency=False)
    assert again.values == () and again.salient is None and again.screen == picture.screen
    player.step()
    assert decoded(player.picture(with_saliency=False).stack)[:, :-84].tolist() == decoded(again.stack)[:, 84:].tolist()


class Moving(Catch):
    """A spot that moves in each step, on a picture that is larger in each game."""

    games = steps = 0

    def reset(self, **more: Any) -> tuple[Any, dict[str, Any]]:
        self.games, self.steps = self.games + 1, 0
        return super().reset(**more)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._seen(), 0.0, self.steps == 3, False, {}

    def render(self) -> Any:
        picture = np.zeros((200, 200 + self.games, 3), np.uint8)
        picture[0, self.steps] = 255
        return picture


def make_moving(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
    game: gymnasium.Env[Any, Any] = Moving()
    return AnyEnvironment(game if watch is None else FilmFrames(game, watch), options, seed)


@pytest.mark.parametrize(
    ("make", "flags", "at_once"), [(make_catch, {"frames_stacked": 1}, 2), (make_moving, {"env": CATCH}, 1)]
)
def test_two_pictures_are_laid_over_each_other_in_atari_games_only_and_within_one_game(
    tmp_path: Path, make: Any, flags: dict[str, Any], at_once: int
) -> None:
    played: list[Any] = []
    write_policy(tmp_path, make, 7, **flags)
    player = GamePlayer(live_game(tmp_path, make_environment=keeping_pictures(make, played)))
    for _ in range(12):
        picture = player.picture(with_saliency=False)
        laid = played[-at_once:] if picture.steps else played[-1:]
        assert (decoded(picture.screen) == np.maximum.reduce(laid)).all()
        player.step()
    assert len(picture.scores) >= 2


def test_newer_checkpoints_are_followed_and_damaged_ones_are_not(tmp_path: Path) -> None:
    write_policy(tmp_path, make_catch, 7, frames_stacked=1)
    player = GamePlayer(live_game(tmp_path))
    (tmp_path / "checkpoints" / "checkpoint_0000000008.pt").write_bytes(b"half")
    player.follow()
    picture = player.picture(with_saliency=False)
    assert picture.agent_steps == 700
    assert picture.note == "checkpoint_0000000008.pt is cut off, damaged, or not a checkpoint of this program."
    before = picture.probabilities
    write_policy(tmp_path, make_catch, 9, frames_stacked=1)
    player.follow()
    player.step()
    picture = player.picture(with_saliency=False)
    assert (picture.agent_steps, picture.note) == (900, "")
    assert picture.probabilities != before


def test_a_checkpoint_of_other_observations_is_not_blamed(tmp_path: Path) -> None:
    """The environment's package, or the user's own module, has changed."""
    write_policy(tmp_path, make_catch, 7, frames_stacked=1)
    path = tmp_path / "checkpoints" / "checkpoint_0000000007.pt"
    content = find_checkpoint(str(path)).content
    spaces = {**described_spaces(make_unroll_layout(Config(), make_catch)), "frame_stack": 7}
    write_checkpoint(path, {**content, "spaces": spaces})
    with pytest.raises(UsageError, match="has other observations .*frame_stack is 1 instead of 7"):
        GamePlayer(live_game(tmp_path))


@pytest.mark.parametrize("chosen", [None, "checkpoint_0000000007.pt"])
def test_a_link_to_a_checkpoint_elsewhere_is_not_played(tmp_path: Path, chosen: str | None) -> None:
    path = write_policy(tmp_path / "outside", make_catch, 7, frames_stacked=1)
    (tmp_path / "results" / "checkpoints").mkdir(parents=True)
    (tmp_path / "results" / "checkpoints" / path.name).symlink_to(path)
    with pytest.raises(InvalidCheckpointError, match=r"^There is no checkpoint to play\.$"):
        GamePlayer(live_game(tmp_path / "results", chosen=chosen))
    GamePlayer(live_game(tmp_path / "results", chosen=chosen, root=tmp_path))


def wait_for(condition: Callable[[], bool], seconds: float = 200) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


@pytest.mark.slow
def test_the_process_plays_in_real_time_at_the_lowest_priority_until_it_is_closed(
    tmp_path: Path, players: list[LivePlayer]
) -> None:
    write_policy(tmp_path, make_atari, 7, **PONG)
    player = LivePlayer(tmp_path, tmp_path, None)
    players.append(player)
    first = player.picture(False)
    assert player.process_id is not None
    process = psutil.Process(player.process_id)
    assert process.nice() == 19
    steps: list[int] = []

    def moved() -> bool:
        steps.append(player.picture(False).steps)
        return steps[-1] >= first.steps + 10

    wait_for(moved)
    write_policy(tmp_path, make_atari, 8, **PONG)
    wait_for(lambda: player.picture(False).agent_steps == 800)
    player.close()
    assert not process.is_running() and not spawned()
    with pytest.raises(LiveGameEndedError, match=r"^The game has ended\.$"):
        player.picture(False)


@pytest.mark.slow
def test_the_process_ends_when_nobody_asks(tmp_path: Path) -> None:
    write_policy(tmp_path, make_catch, 7, frames_stacked=1)
    child = start_child(live_game(tmp_path, quiet_seconds=0.5), "live game")
    wait_for(lambda: child.has_ended)
    assert child.end().exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (None, None, "There is no checkpoint to play."),
        ("best.pt", b"x", "best.pt is cut off, damaged, or not a checkpoint of this program."),
        ("best.pt", None, "best.pt cannot be read (No such file or directory)."),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_said(
    tmp_path: Path, players: list[LivePlayer], name: str | None, content: bytes | None, sentence: str
) -> None:
    (tmp_path / "checkpoints").mkdir()
    if content is not None:
        (tmp_path / "checkpoints" / str(name)).write_bytes(content)
    players.append(LivePlayer(tmp_path, tmp_path, name))
    with pytest.raises(LiveGameEndedError) as ended:
        players[0].picture(False)
    assert str(ended.value) == sentence


@pytest.mark.slow
def test_a_killed_game_is_said_and_only_some_play_at_once(tmp_path: Path, players: list[LivePlayer]) -> None:
    players += [LivePlayer(tmp_path, tmp_path, None) for _ in range(MOST_AT_ONCE)]
    with pytest.raises(LiveGameEndedError, match=r"4 agents are playing on other pages"):
        LivePlayer(tmp_path, tmp_path, None)
    assert players[0].process_id is not None
    psutil.Process(players[0].process_id).kill()
    with pytest.raises(LiveGameEndedError, match=r"^The process of the game has ended\.$"):
        players[0].picture(False)
    players[0].close()
    players.append(LivePlayer(tmp_path, tmp_path, None))
    psutil.Process(players[1].process_id).kill()
    wait_for(lambda: players[1]._child.has_ended)
    players.append(LivePlayer(tmp_path, tmp_path, None))  # in the place of the killed one, which nobody has closed
    assert players[1].process_id is None


class Silent:
    """A live game that never answers."""

    def run(self, connection: Any) -> None:
        time.sleep(1000)


@pytest.mark.slow
def test_a_game_is_ended_while_its_first_picture_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "start_child", lambda game, name: start_child(Silent(), name))
    monkeypatch.setattr(player_module, "START_SECONDS", 60.0)
    player, said = LivePlayer(tmp_path, tmp_path, None), []

    def ask() -> None:
        try:
            player.picture(False)
        except LiveGameEndedError as error:
            said.append(str(error))

    asking = Thread(target=ask)
    asking.start()
    wait_for(player._lock.locked)
    player.close()
    asking.join()
    assert said == ["The process of the game has ended."]


def test_the_score_begins_with_the_first_step_of_the_agent(tmp_path: Path) -> None:
    """In Skiing, every frame of the random start has a reward."""
    write_policy(tmp_path, make_atari, 7, env="SkiingNoFrameskip-v4")
    player = GamePlayer(live_game(tmp_path, make_environment=make_atari))
    assert player.picture(with_saliency=False).score == 0
    player.step()
    assert player.picture(with_saliency=False).score < 0


def test_pictures_are_small(tmp_path: Path) -> None:
    """They go through an SSH tunnel fifteen times in a second."""
    write_policy(tmp_path, make_atari, 7, **PONG)
    picture = GamePlayer(live_game(tmp_path, make_environment=make_atari)).picture(False)
    assert isinstance(picture, LivePicture)
    assert len(picture.screen) + len(picture.seen) < 15_000


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 10])
def test_pictures_of_any_number_of_channels_are_shown(tmp_path: Path, channels: int) -> None:
    """More than three are those of MinAtar: each has one kind of things."""
    write_policy(tmp_path, make_environment, 7, env=CHANNELS, env_kwargs=f'{{"channels": {channels}}}')
    player = GamePlayer(live_game(tmp_path, make_environment=make_environment))
    player.step()
    seen = decoded(player.picture(with_saliency=False).seen)
    assert seen.shape == ((12, 12, 3) if channels == 3 else (12, 12))
    assert seen[3, 4].max() == 200
