"""Complete games: each depends only on the seed and its number, and none is left out."""

import errno
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
import torch

from agents.acting import Actor, ActorState, flat_weights, weight_count
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from evaluation.parallel_games import (
    SLOTS,
    GameResult,
    GameSeries,
    ParallelGames,
    evaluation_options,
    game_streams,
    slots_for,
)
from evaluation.players import PlayerPool, PlayerProcess, player_of
from option_flags import Config, EnvironmentOptions
from processes.fork_server import start_forked
from processes.pool import ChildPool, WorkersFailedError
from replay.unroll_layout import UnrollLayout
from tests.catch import make_catch
from workers.shared_weights import SharedWeights
from wrappers.environment import MakeEnvironment, Watch

pytestmark = pytest.mark.slow

OPTIONS = EnvironmentOptions(frames_stacked=2)
CONFIG = Config.from_flags({"frames_stacked": 2, "network": "impala_shallow", "use_lstm": True, "lstm_size": 16})
LAYOUT = make_unroll_layout(CONFIG, make_catch)


class LongOrShort(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Games whose seed is a multiple of 3 are cut off after their third step."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._short = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._short = seed is not None and seed % 3 == 0
        self._steps = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, _, info = self.env.step(action)
        self._steps += 1
        return observation, float(reward), terminated, self._short and self._steps == 3, info


def make_long_or_short(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
    return LongOrShort(make_catch(options, seed))


def make_broken(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
    raise RuntimeError("this game cannot be made")


def network() -> ActorCritic:
    torch.manual_seed(3)
    network = ActorCritic(CONFIG.network, LAYOUT, torch.float32)
    with torch.no_grad():
        network.policy_head.weight.mul_(300)  # a policy that depends on the observation
    return network


def series_of(make: MakeEnvironment = make_catch, seed: int = 7, **others: Any) -> GameSeries:
    return GameSeries(make_environment=make, environment=OPTIONS, seed=(seed,), **others)


def games(**others: Any) -> ParallelGames:
    return ParallelGames(series_of(**{"slots": 32, **others}), Actor(network()), LAYOUT)


def play(played: ParallelGames, numbers: list[int], at_once: int = 32) -> list[GameResult]:
    waiting, results = list(numbers), list[GameResult]()
    while waiting or played.running:
        while waiting and played.running < at_once:
            played.start(waiting.pop(0))
        results += played.step()
    return sorted(results, key=lambda result: result.game)


def plain(results: list[GameResult]) -> list[tuple[Any, ...]]:
    logs = [(r.log.actions.tolist(), r.log.values.tolist()) if r.log else None for r in results]
    return [(*result[:4], log) for result, log in zip(results, logs, strict=True)]


@pytest.mark.parametrize("greedy", [False, True])
def test_a_game_does_not_depend_on_the_games_beside_it(greedy: bool) -> None:
    together = plain(play(games(greedy=greedy, logged=99), list(range(24))))
    assert together == plain(play(games(greedy=greedy, logged=99), list(range(23, -1, -1)), at_once=9))
    assert together[17:18] == plain(play(games(greedy=greedy, logged=99), [17]))
    assert len({result[1] for result in together}) == 2, "some are won and some are lost"
    assert together[:16] != plain(play(games(greedy=greedy, logged=99, seed=8), list(range(16))))


@pytest.mark.parametrize("slots", SLOTS.values())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("name", "lstm_size"), [("nature", 256), ("impala_deep", 0)])
def test_in_batches_of_one_size_a_row_depends_neither_on_the_others_nor_on_its_place(
    name: str, lstm_size: int, dtype: torch.dtype, slots: int
) -> None:
    """The assumption behind SLOTS, with the networks and observations of real games."""
    layout = UnrollLayout(
        unroll_length=1, frame_stack=4, frame_shape=(1, 84, 84), action_sizes=(6,), lstm_size=lstm_size
    )
    options = replace(CONFIG.network, network=name, use_lstm=lstm_size > 0, lstm_size=max(lstm_size, 1))
    actor = Actor(ActorCritic(options, layout, dtype))
    observations = torch.randint(0, 256, (slots, 4, 84, 84), dtype=torch.uint8)
    state, uniforms = ActorState.at_start(slots, layout), torch.zeros(slots)
    state.lstm_state.normal_()
    first = actor.act(observations, state, uniforms)
    kept = (slots + 1) // 2
    for _ in range(3):
        order = torch.randperm(slots)
        mixed = observations[order]
        mixed[kept:] = 0
        moved = ActorState.at_start(slots, layout)
        moved.lstm_state[:] = state.lstm_state[order]
        second = actor.act(mixed, moved, uniforms)
        for before, after in zip(first, second, strict=True):
            assert torch.equal(before[order][:kept], after[:kept])


@pytest.mark.parametrize(
    ("count", "slots"), [(1, 1), (7, 1), (8, 4), (31, 4), (32, 8), (63, 8), (64, 16), (127, 16), (128, 32), (9999, 32)]
)
def test_few_games_have_few_slots(count: int, slots: int) -> None:
    assert slots_for(count) == slots


@pytest.mark.parametrize("slots", SLOTS.values())
def test_each_forward_pass_has_a_row_for_each_slot(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = set()
    act = Actor.act

    def count_rows(actor: Actor, observations: torch.Tensor, *others: Any) -> Any:
        rows.add(len(observations))
        return act(actor, observations, *others)

    monkeypatch.setattr(Actor, "act", count_rows)
    assert len(play(games(slots=slots), list(range(slots)))) == slots
    assert rows == {slots}


def test_a_game_equals_one_played_by_hand_from_its_streams() -> None:
    """The actions come from the log; the environment is seeded by the game's stream."""
    (result,) = play(games(logged=12), [11])
    assert result.log is not None
    seed, _ = game_streams((7,), 11)
    environment = make_catch(OPTIONS, 0)
    environment.reset(seed=seed)
    rewards = [float(environment.step(action)[1]) for action in result.log.actions.tolist()]
    assert (result.return_, result.length, result.cut_off) == (sum(rewards), len(rewards), False)


def test_only_the_first_games_keep_a_log() -> None:
    results = play(games(logged=3), list(range(6)))
    assert [result.log is not None for result in results] == [True] * 3 + [False] * 3


def test_games_that_are_cut_off_are_marked() -> None:
    results = play(games(make=make_long_or_short), list(range(30)))
    short = [game_streams((7,), game)[0] % 3 == 0 for game in range(30)]
    assert [result.cut_off for result in results] == short


def test_evaluations_play_complete_games() -> None:
    tested = evaluation_options(replace(OPTIONS, episodic_life=True, noop_threshold=7))
    assert (tested.episodic_life, tested.fire_on_life_loss, tested.noop_threshold) == (False, True, 7)


def make_player(weights: SharedWeights, make: MakeEnvironment = make_catch) -> PlayerProcess:
    return player_of(CONFIG, series_of(make, slots=16, logged=100), LAYOUT, torch.float32, weights)


def test_all_games_are_played_even_if_a_player_dies() -> None:
    """One of two processes is killed after the first result. The results equal those of a single process."""
    trained = network()
    weights = SharedWeights(weight_count(trained))
    weights.publish(0, flat_weights(trained))
    players = PlayerPool(ChildPool(print, silence=100.0, start=start_forked), make_player(weights), 2, range(100))
    children = [psutil.Process(number) for number in players.children.process_ids()]
    results: list[GameResult] = []
    killed = False
    try:
        while players.under_way:
            results += players.wait(10.0)
            if results and not killed:
                children[0].kill()
                killed = True
    finally:
        players.close()
    assert plain(sorted(results, key=lambda result: result.game)) == plain(
        play(games(logged=100, slots=16), list(range(100)), at_once=16)
    )
    assert not psutil.wait_procs(children, timeout=60)[1]


def test_a_players_exception_reaches_the_parent() -> None:
    trained = network()
    weights = SharedWeights(weight_count(trained))
    weights.publish(0, flat_weights(trained))
    players = PlayerPool(
        ChildPool(print, silence=100.0, start=start_forked), make_player(weights, make_broken), 1, range(3)
    )
    try:
        with pytest.raises(WorkersFailedError, match="this game cannot be made"):
            players.wait(60.0)
    finally:
        players.close()


def test_a_player_that_cannot_be_started_is_named() -> None:
    def refuse(*_: object) -> Any:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    children = ChildPool(print, silence=100.0, start=refuse)
    with pytest.raises(WorkersFailedError, match=r"^player 0 could not be started \(Resource temporarily"):
        PlayerPool(children, make_player(SharedWeights(1)), 2, range(3))


def test_uniforms_of_different_games_differ() -> None:
    first = [game_streams((7,), game)[1].random() for game in range(50)]
    assert len(set(first)) == 50
    assert len({game_streams((7,), game)[0] for game in range(50)}) == 50
    assert np.mean(first) == pytest.approx(0.5, abs=0.2)
