"""Test games and films whose environment hangs, and slow ones that do not."""

import itertools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
import torch

from agents.acting import flat_weights, weight_count
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from evaluation.logged_game import film_of
from evaluation.parallel_games import GameLog, GameResult, GameSeries
from evaluation.players import PlayerPool, PlayerProcess, player_of
from option_flags import Config, EnvironmentOptions
from processes import inside
from processes.child import Child
from processes.fork_server import start_forked
from processes.pool import ChildPool, WorkersFailedError
from tests.workers.pools import SILENCE_LIMIT, Clock, be_silent
from tests.wrappers.hand_written import FAULTY, Catch, Faulty
from workers.shared_weights import SharedWeights
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.environment import MakeEnvironment, Watch

pytestmark = pytest.mark.slow

CONFIG = Config.from_flags({"env": FAULTY, "network": "mlp", "env_kwargs": '{"how": "never", "at": 1}'})
STEPS = 5  # of the slow game


def make_faulty(
    how: str, mark: Path, options: EnvironmentOptions, seed: int, watch: Watch | None = None
) -> gymnasium.Env[Any, Any]:
    game: gymnasium.Env[Any, Any] = Faulty(how, 1, str(mark))
    return AnyEnvironment(game, options, seed, watch)


class Slow(Catch):
    """Each step takes as long as the test wants: until it has made a file."""

    def __init__(self, permits: Path) -> None:
        super().__init__()
        self._permits = permits

    def reset(self, **more: Any) -> tuple[Any, dict[str, Any]]:
        self._steps = 0
        return super().reset(**more)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        while not (self._permits / f"step_{self._steps}").exists():
            time.sleep(0.01)
        self._steps += 1
        return self._seen(), 0.0, self._steps == STEPS, False, {}

    def render(self) -> Any:
        return np.full((4, 6, 3), 9, np.uint8)


def make_slow(
    permits: Path, options: EnvironmentOptions, seed: int, watch: Watch | None = None
) -> gymnasium.Env[Any, Any]:
    return AnyEnvironment(Slow(permits), options, seed, watch)


@dataclass(frozen=True)
class LivelyPlayer:
    """A player that sends a heartbeat after each step of a game."""

    player: PlayerProcess

    def run(self, connection: Connection) -> None:
        inside.HEARTBEAT_SECONDS = 0.0
        self.player.run(connection)


@dataclass
class Scene:
    """A clock that the test moves, what was said of processes, and what was started."""

    clock: Clock = field(default_factory=Clock)
    said: list[str] = field(default_factory=list)
    opened: list[Any] = field(default_factory=list)

    def children(self) -> ChildPool:
        def start(player: PlayerProcess, name: str) -> Child:
            return start_forked(LivelyPlayer(player), name)

        return ChildPool(self.said.append, silence=SILENCE_LIMIT, clock=self.clock, start=start)

    def players(self, make_environment: MakeEnvironment) -> PlayerPool:
        layout = make_unroll_layout(CONFIG, make_environment)
        network = ActorCritic(CONFIG.network, layout, torch.float32)
        weights = SharedWeights(weight_count(network))
        weights.publish(0, flat_weights(network))
        series = GameSeries(make_environment=make_environment, environment=CONFIG.environment, seed=(7,))
        player = player_of(CONFIG, series, layout, torch.float32, weights)
        players = PlayerPool(self.children(), player, 1, range(1))
        self.opened.append(players)
        return players

    def film(self, make_environment: MakeEnvironment, folder: Path) -> PlayerPool:
        """A player that has played a game, and is asked to film another one."""
        players = self.players(partial(make_faulty, "never", folder / "unused"))
        while players.under_way:
            players.wait(200.0)
        log = GameLog(np.zeros(STEPS, np.uint8), np.zeros(STEPS, np.float32))
        series = GameSeries(make_environment=make_environment, environment=CONFIG.environment, seed=(1,))
        players.film(0, film_of(series, GameResult(0, 0.0, STEPS, False, log), folder / "videos", "film"))
        players.wait(0.0)
        return players


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    for each in reversed(scene.opened):
        each.close()


def wait_for_hang(mark: Path, process: psutil.Process, wait: Callable[[float], object]) -> None:
    while not (mark.exists() and process.status() == psutil.STATUS_SLEEPING):
        wait(0.05)


PLACE = r", line \d+ in wait_for_a_server_that_never_answers$"


def test_a_step_of_a_test_game_that_never_returns_is_found(scene: Scene, tmp_path: Path) -> None:
    players = scene.players(partial(make_faulty, "sleeps", tmp_path / "hangs"))
    process = psutil.Process(players.children.process_ids()[0])
    wait_for_hang(tmp_path / "hangs", process, players.wait)
    with pytest.raises(WorkersFailedError) as raised:
        be_silent(scene.clock, players.wait)
    first, place = str(raised.value).splitlines()[:2]
    assert first == f"a player did not respond for {SILENCE_LIMIT:g} seconds; it hangs here, most recent call first:"
    assert re.search(PLACE, place) and "hand_written.py" in place


def play_slowly(scene: Scene, players: PlayerPool, permits: Path) -> list[GameResult]:
    """Let the game make one step after the other, each of which takes more than half of the silence limit."""
    results: list[GameResult] = []
    for step in itertools.count():
        if not players.under_way:
            return results
        (permits / f"step_{step}").touch()
        results += players.wait(200.0)  # until the next heartbeat, or the result
        scene.clock.now += 0.6 * SILENCE_LIMIT
    raise AssertionError


def test_a_stopped_player_is_killed_and_its_game_played_again(scene: Scene, tmp_path: Path) -> None:
    players = scene.players(partial(make_slow, tmp_path))
    (number,) = players.children.process_ids()
    psutil.Process(number).suspend()
    be_silent(scene.clock, players.wait)
    assert not psutil.pid_exists(number)
    assert scene.said == [f"player 0 is replaced: it did not respond for {SILENCE_LIMIT:g} seconds"]
    assert [result.length for result in play_slowly(scene, players, tmp_path)] == [STEPS]


def test_neither_a_slow_game_nor_an_idle_player_is_interrupted(scene: Scene, tmp_path: Path) -> None:
    players = scene.players(partial(make_slow, tmp_path))
    numbers, begun = players.children.process_ids(), scene.clock.now
    assert [result.length for result in play_slowly(scene, players, tmp_path)] == [STEPS]
    assert scene.clock.now - begun > 2 * SILENCE_LIMIT
    be_silent(scene.clock, players.wait)
    assert players.children.process_ids() == numbers
    assert not scene.said


def test_a_film_whose_game_hangs_is_given_up(scene: Scene, tmp_path: Path) -> None:
    mark = tmp_path / "hangs"
    players = scene.film(partial(make_faulty, "sleeps", mark), tmp_path)
    (number,) = players.children.process_ids()
    wait_for_hang(mark, psutil.Process(number), players.wait)
    players.wait(0.0)
    with pytest.raises(WorkersFailedError) as raised:
        be_silent(scene.clock, players.wait)
    first, place = str(raised.value).splitlines()[:2]
    assert first.startswith(f"a player did not respond for {SILENCE_LIMIT:g} seconds; it hangs here")
    assert re.search(PLACE, place)
    players.close()
    assert scene.said == ["unfinished videos are dropped"]
    assert not list((tmp_path / "videos").iterdir())


def test_a_film_of_a_slow_game_is_made_again_if_its_process_is_killed(scene: Scene, tmp_path: Path) -> None:
    players, begun = scene.film(partial(make_slow, tmp_path), tmp_path), scene.clock.now
    (number,) = players.children.process_ids()
    while not (tmp_path / "videos").exists():
        players.wait(0.05)
    psutil.Process(number).kill()
    play_slowly(scene, players, tmp_path)
    assert scene.clock.now - begun > 2 * SILENCE_LIMIT
    path = tmp_path / "videos" / "film_game0_return0.mp4"
    differs = "the film of game 0 differs from the game that was scored: the environment does not repeat a game"
    assert scene.said[:2] == [
        "player 0 is replaced: it was killed by SIGKILL", f"video     {path}, {STEPS + 1} frames"
    ]  # fmt: skip
    assert not any(differs in line for line in scene.said)
    assert list(path.parent.iterdir()) == [path]
