"""Test games and films whose environment hangs, and slow ones that do not."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
import torch

from agents.acting import flat_weights, weight_count
from agents.network import make_network
from agents.spaces import make_unroll_layout
from evaluation.film_processes import FilmProcesses
from evaluation.logged_game import LoggedGame
from evaluation.parallel_games import GameLog, GameResult
from evaluation.player_pool import PlayerPool
from evaluation.player_process import PlayerProcess
from option_flags import Config, EnvironmentOptions
from tests.workers.pools import SILENCE_LIMIT, Clock, be_silent
from tests.wrappers.hand_written import FAULTY, Catch, Faulty
from workers.failures import WorkersFailedError
from workers.memory.shared_weights import SharedWeights
from workers.processes import interrupts
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.environment import MakeEnvironment, Watch
from wrappers.films import FilmFrames

pytestmark = pytest.mark.slow

CONFIG = Config.from_flags({"env": FAULTY, "network": "mlp", "env_kwargs": '{"how": "never", "at": 1}'})
STEPS = 5  # of the slow game


def make_faulty(
    how: str, mark: Path, options: EnvironmentOptions, seed: int, watch: Watch | None = None
) -> gymnasium.Env[Any, Any]:
    game: gymnasium.Env[Any, Any] = Faulty(how, 1, str(mark))
    return AnyEnvironment(game if watch is None else FilmFrames(game, watch), options, seed)


class Slow(Catch):
    """Each step takes longer than the time between two heartbeats."""

    def reset(self, **more: Any) -> tuple[Any, dict[str, Any]]:
        self._steps = 0
        return super().reset(**more)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(1.1)
        self._steps += 1
        return self._seen(), 0.0, self._steps == STEPS, False, {}

    def render(self) -> Any:
        return np.full((4, 6, 3), 9, np.uint8)


def make_slow(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
    game: gymnasium.Env[Any, Any] = Slow()
    return AnyEnvironment(game if watch is None else FilmFrames(game, watch), options, seed)


@dataclass
class Scene:
    """A clock that the test moves, the interrupts that were sent, and what was started."""

    clock: Clock = field(default_factory=Clock)
    interrupted: list[Any] = field(default_factory=list)
    opened: list[Any] = field(default_factory=list)

    def players(self, make_environment: MakeEnvironment) -> PlayerPool:
        layout = make_unroll_layout(CONFIG, make_slow)
        network = make_network(CONFIG.network, layout, torch.float32)
        weights = SharedWeights(weight_count(network))
        self.opened.append(weights)
        weights.publish(0, flat_weights(network))
        player = PlayerProcess(
            make_environment=make_environment,
            environment=CONFIG.environment,
            network=CONFIG.network,
            layout=layout,
            compute_dtype=torch.float32,
            weights=weights,
            seed=(7,),
            slots=1,
            greedy=False,
            logged=0,
            low_priority=False,
            timeout=SILENCE_LIMIT,
        )
        players = PlayerPool(player, 1, range(1), clock=self.clock)
        self.opened.append(players)
        return players

    def films(self, folder: Path, announced: list[str]) -> FilmProcesses:
        films = FilmProcesses(folder, announced.append, SILENCE_LIMIT, self.clock)
        self.opened.append(films)
        return films


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    scene = Scene()
    interrupt = interrupts.interrupt

    def counted(process: Any) -> None:
        scene.interrupted.append(process)
        interrupt(process)

    monkeypatch.setattr("workers.processes.silence.interrupt", counted)
    yield scene
    for each in reversed(scene.opened):
        each.close()


def wait_for_hang(mark: Path, process: psutil.Process, wait: Callable[[float], object]) -> None:
    while not (mark.exists() and process.status() == psutil.STATUS_SLEEPING):
        wait(0.05)


def test_a_step_of_a_test_game_that_never_returns_is_found(scene: Scene, tmp_path: Path) -> None:
    players = scene.players(partial(make_faulty, "sleeps", tmp_path / "hangs"))
    process = psutil.Process(players.process_ids()[0])
    wait_for_hang(tmp_path / "hangs", process, players.wait)
    scene.clock.now += 10 * SILENCE_LIMIT
    players.wait(0.0)
    assert not scene.interrupted, "the parent itself may have been stopped"
    be_silent(scene.clock, players.wait, already=SILENCE_LIMIT / 2)
    with pytest.raises(WorkersFailedError) as raised:
        players.wait(200.0)
    text = str(raised.value)
    assert text.startswith(f"a player did not respond for {SILENCE_LIMIT:g} seconds:\nTraceback")
    assert "in wait_for_a_server_that_never_answers\n    time.sleep(1000)" in text
    assert f"{FAULTY} has a fault in step 1 of a game (" in text.splitlines()[-1]
    assert "no answer within --worker_timeout" in text.splitlines()[-1]


def test_a_player_that_cannot_be_interrupted_is_killed_and_its_game_played_again(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.player_pool.MAX_DEATHS_IN_A_ROW", 2)
    mark = tmp_path / "hangs"
    players = scene.players(partial(make_faulty, "computes", mark))
    killed = []

    def hang() -> None:
        (number,) = players.process_ids()
        while not mark.exists():
            players.wait(0.05)
        mark.unlink()
        process = psutil.Process(number)
        before = process.cpu_times().user
        while process.cpu_times().user <= before + 0.1:
            players.wait(0.05)
        be_silent(scene.clock, players.wait)
        killed.append(process)
        while players.process_ids() == [number]:
            scene.clock.now += 0.1
            players.wait(0.05)

    hang()
    with pytest.raises(WorkersFailedError) as raised:
        hang()
    assert len(killed) == 2 and not any(process.is_running() for process in killed)
    first, place = str(raised.value).splitlines()[:2]
    assert first == (
        "players died 2 times before any game ended, the last one because of --worker_timeout: while it played "
        f"{FAULTY}, it did not respond for {SILENCE_LIMIT:g} seconds; it hangs here, most recent call first:"
    )
    assert place.endswith(", in step") and "hand_written.py" in place


def test_neither_a_slow_game_nor_an_idle_player_is_interrupted(scene: Scene) -> None:
    players = scene.players(make_slow)
    numbers, begun = players.process_ids(), scene.clock.now
    results: list[GameResult] = []
    while players.has_unfinished_games:
        results += players.wait(200.0)  # until the next heartbeat, or the result
        scene.clock.now += 0.6 * SILENCE_LIMIT
    assert [result.length for result in results] == [STEPS]
    assert scene.clock.now - begun > 2 * SILENCE_LIMIT
    be_silent(scene.clock, players.wait)
    assert players.process_ids() == numbers
    assert not scene.interrupted


def logged_game(make_environment: Any, steps: int) -> LoggedGame:
    log = GameLog(np.zeros(steps, np.uint8), np.zeros(steps, np.float32))
    return LoggedGame(
        make_environment=make_environment,
        environment=CONFIG.environment,
        seed=(1,),
        result=GameResult(0, 0.0, steps, False, log),
        policy="sampled",
    )


def test_a_film_whose_game_hangs_is_given_up(scene: Scene, tmp_path: Path) -> None:
    announced: list[str] = []
    films = scene.films(tmp_path / "videos", announced)
    mark = tmp_path / "hangs"
    films.begin(logged_game(partial(make_faulty, "sleeps", mark), STEPS), "hanging", low_priority=True)
    (process,) = [each for each in psutil.Process().children() if "--multiprocessing-fork" in each.cmdline()]
    wait_for_hang(mark, process, films.wait)
    films.wait(0.0)
    be_silent(scene.clock, films.wait)
    with pytest.raises(WorkersFailedError) as raised:
        films.wait(200.0)
    text = str(raised.value)
    assert f"could not be made: its process did not respond for {SILENCE_LIMIT:g} seconds:\nTraceback" in text
    assert f"{FAULTY} has a fault in step 1 of a game (" in text.splitlines()[-1]
    assert "no answer within --worker_timeout" in text.splitlines()[-1]
    assert not films.under_way and not announced
    assert not list((tmp_path / "videos").iterdir())


def test_a_film_of_a_slow_game_is_made(scene: Scene, tmp_path: Path) -> None:
    announced: list[str] = []
    films, begun = scene.films(tmp_path, announced), scene.clock.now
    films.begin(logged_game(make_slow, STEPS), "slow", low_priority=False)
    while films.under_way:
        films.wait(200.0)
        scene.clock.now += 0.6 * SILENCE_LIMIT
    assert scene.clock.now - begun > 2 * SILENCE_LIMIT
    assert announced == [f"video     {tmp_path}/slow_game0_return0.mp4, {STEPS + 1} frames"]
    assert not scene.interrupted
