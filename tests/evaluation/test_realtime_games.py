"""Test games in real time, with a clock and inference processes of the test."""

import numpy as np
import pytest

from agents.spaces import make_unroll_layout
from evaluation.film import Picture
from evaluation.logged_game import Replay
from evaluation.parallel_games import IDLE, GameResult, GameSeries, game_streams
from evaluation.players import TestBook
from option_flags import Config
from tests.watched import keeping_pictures
from tests.workers.realtime.fake_inference import FakeSession
from workers.realtime.player import ClockedGame
from wrappers.atari import make_atari

OPTIONS = {
    "env": "BreakoutNoFrameskip-v4",
    "interaction": "realtime",
    "max_game_frames": 300,
    "repeat_action_probability": 0.25,
    "idle_action": "random",
    "episodic_life": False,
    "fire_on_life_loss": True,
}
SEED = (5,)


@pytest.mark.parametrize("logged", [0, 9])
@pytest.mark.slow
def test_games_are_played_to_their_end_and_a_film_shows_the_same_frames(logged: int) -> None:
    config = Config.from_flags(OPTIONS)
    played: list[Picture] = []
    env = make_atari(config.environment, 0, lambda picture, score: played.append(picture.copy()))
    book = TestBook([env.get_wrapper_attr("take_finished_games")], logged, "int32")
    games = [ClockedGame(env, np.random.default_rng(), config.environment)]
    times = np.random.default_rng(1)
    layout = make_unroll_layout(config, make_atari)
    session = FakeSession(games, layout, book, lambda process: float(times.uniform(0.2, 1.0)), processes=2)
    results: list[GameResult] = []
    for game in (0, 1):
        played.clear()
        environment_seed, rng = game_streams(SEED, game)
        games[book.begin(game, rng)].start(environment_seed, rng)
        while len(results) == game:
            session.play_on()
            results += book.take_results()
    assert [result.game for result in results] == [0, 1]
    assert all(result.cut_off or result.return_ >= 0 for result in results)
    if not logged:
        assert [result.log for result in results] == [None, None]
        return
    log = results[1].log
    assert log is not None and log.ages is not None
    assert {IDLE} < set(log.ages.tolist())
    assert results[1].length == -(-len(log.actions) // 4)

    filmed: list[Picture] = []
    make = keeping_pictures(make_atari, filmed)
    again = GameSeries(make_environment=make, environment=config.environment, seed=SEED)
    replay = Replay(again, results[1])
    assert len(list(replay.pictures())) == len(filmed)
    assert replay.is_same, "to the same end"
    np.testing.assert_array_equal(np.stack(filmed), np.stack(played))
