"""Any environment as a game that does not wait: each step of the environment is a tick."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from agents.spaces import settle_fps
from option_flags import Config
from options.rules import UsageError
from tests.wrappers.hand_written import Scripted, options_of
from wrappers.environment import Observation, environment_spec
from wrappers.make_environment import check_environment, make_environment
from wrappers.timeline import DelayedTimeline, Effect

LENGTH = 30  # ticks of a game
RECORDER = f"{__name__}:Recorder-v0"
SPACES = {"discrete": Discrete(4, start=10), "box": Box(-2, 2, (2,), np.float64), "product": MultiDiscrete([3, 4])}
NOOP = {"discrete": 10, "box": [0, 0], "product": [0, 0]}


def recorder(space: str, rewards: tuple[float, ...] = (1.0,), **more: Any) -> Scripted:
    """Its `actions` are those of the ticks."""
    return Scripted(Box(0, 1, (3,), np.float32), SPACES[space], rewards=list(rewards), ends={LENGTH: (True, False)})


gymnasium.register("Recorder-v0", entry_point=f"{__name__}:recorder")


def play(env: gymnasium.Env[Any, Any], actions: list[Any], seed: int | None = None) -> tuple[list[Any], list[Any]]:
    """What the agent sees, and what the environment gets, in a game or until there are no more actions."""
    seen: list[Any] = [env.reset(seed=seed)[0]]
    for action in actions:
        observation, *rest, _ = env.step(action)
        seen.append((observation, *rest))
        if rest[1] or rest[2]:
            break
    recorded = env.unwrapped.get_wrapper_attr("env").unwrapped
    return seen, [np.asarray(action).tolist() for action in recorded.actions] if isinstance(recorded, Scripted) else []


def play_for_effects(env: gymnasium.Env[Any, Any], actions: list[Any]) -> tuple[list[Any], list[Any], list[Effect]]:
    """Also what the decisions of a game led to, which a rollout numbers and takes after each step."""
    timeline: DelayedTimeline = env.get_wrapper_attr("timeline")
    effects: list[Effect] = []
    seen: list[Any] = [env.reset()[0]]
    for number, action in enumerate(actions):
        timeline.step = number
        observation, reward, terminated, truncated, _ = env.step(action)
        seen.append((observation, reward, terminated, truncated))
        if terminated or truncated:
            timeline.end(truncated and not terminated)
        effects += timeline.take_effects()
        if terminated or truncated:
            break
    played = env.unwrapped.get_wrapper_attr("env").unwrapped.actions
    return seen, played, effects


def chosen(space: str, count: int) -> list[Any]:
    rng = np.random.default_rng(1)
    if space == "discrete":
        return list(rng.integers(4, size=count).tolist())
    return list(rng.uniform(-0.9, 0.9, (count, 2)) if space == "box" else rng.integers(3, size=(count, 2)))


def as_played(space: str, action: Any) -> Any:
    """What the environment gets for an action of the agent."""
    if space == "discrete":
        return action + 10
    return (action * 2).tolist() if space == "box" else action.tolist()


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    ("interaction", "delay", "skip", "idle"),
    [
        *(("asynchronous", 0, 1, "noop"), ("asynchronous", 4, 1, "noop"), ("asynchronous", 5, 2, "noop")),
        *(("sequential", 4, 1, "noop"), ("sequential", 4, 1, "repeat"), ("sequential", 4, 2, "repeat")),
    ],
)
def test_each_tick_plays_the_action_that_the_delay_and_the_idle_action_say(
    space: str, interaction: str, delay: int, skip: int, idle: str
) -> None:
    flags = {"interaction": interaction, "action_delay": delay, "skipped_frames": skip, "idle_action": idle}
    env = make_environment(options_of(RECORDER, env_kwargs=f'{{"space": "{space}"}}', **flags), 1)
    period = max(skip, delay) if interaction == "sequential" else skip
    decisions = chosen(space, -(-LENGTH // period))
    seen, played = play(env, decisions)
    assert len(played) == LENGTH
    for tick, action in enumerate(played):
        decision, age = divmod(tick - delay, period)
        if decision < 0 or (age >= skip and idle == "noop"):
            assert action == NOOP[space]
        else:
            assert action == as_played(space, decisions[decision])
    # The rewards of the ticks are summed, and a game is as long as its decisions are many.
    assert [reward for _, reward, *_ in seen[1:-1]] == [period] * (len(decisions) - 1)
    assert env.get_wrapper_attr("take_finished_games")() == [(LENGTH, len(decisions), {})]


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_without_a_delay_it_is_the_game_that_waits(env: str) -> None:
    turns, delayed = (make_environment(options_of(env, interaction=each), 3) for each in ("turns", "asynchronous"))
    turns.action_space.seed(5)
    actions = [turns.action_space.sample() for _ in range(250)]
    first, second = play(turns, actions)[0], play(delayed, actions)[0]
    assert len(first) == len(second) > 10
    for one, other in zip(first[1:], second[1:], strict=True):
        assert one[1:] == other[1:]
        assert (one[0].vector == other[0].vector).all()
    games = [each.get_wrapper_attr("take_finished_games")() for each in (turns, delayed)]
    assert games[0] == games[1] != []
    assert environment_spec(turns) == environment_spec(delayed)
    assert turns.get_wrapper_attr("time_limit") == delayed.get_wrapper_attr("time_limit")


@pytest.mark.parametrize("space", SPACES)
def test_random_idle_actions_follow_the_seed(space: str) -> None:
    flags = {"interaction": "sequential", "action_delay": 6, "idle_action": "random"}
    options = options_of(RECORDER, env_kwargs=f'{{"space": "{space}"}}', **flags)
    played = [play(make_environment(options, seed), chosen(space, 5))[1] for seed in (1, 1, 2)]
    again = [play(make_environment(options, other), chosen(space, 5), seed=9)[1] for other in (1, 2)]
    assert played[0] == played[1] != played[2]
    assert again[0] == again[1]
    assert all(SPACES[space].contains(np.array(action, SPACES[space].dtype)) for action in played[0])


def test_rewards_are_clipped_for_the_learner_and_not_in_returns() -> None:
    flags = {"interaction": "asynchronous", "action_delay": 3, "reward_clipping_method": "abs_one_sign"}
    env = make_environment(options_of(RECORDER, env_kwargs='{"space": "box", "rewards": [5, -2]}', **flags), 1)
    seen, _, effects = play_for_effects(env, chosen("box", LENGTH))
    assert [reward for _, reward, *_ in seen[1:]] == [1, -1] * (LENGTH // 2)
    assert env.get_wrapper_attr("take_finished_games")() == [(1.5 * LENGTH, LENGTH, {})]
    effects = [effect for effect in effects if effect.frames]
    assert [effect.reward for effect in effects] == [-2, 5] * ((LENGTH - 3) // 2) + [-2]
    assert [effect.ended for effect in effects] == [False] * (LENGTH - 4) + [True]


def test_the_limit_of_frames_cuts_a_game_and_its_last_effect() -> None:
    flags = {"interaction": "sequential", "action_delay": 4, "max_game_frames": 10}
    env = make_environment(options_of(RECORDER, env_kwargs='{"space": "discrete"}', **flags), 1)
    seen, played, effects = play_for_effects(env, chosen("discrete", LENGTH))
    assert (len(played), seen[-1][2:]) == (10, (False, True))
    assert [(effect.cut, effect.frames) for effect in effects] == [(False, 4), (True, 2), (False, 0)]


def test_starts_are_spread_over_the_agents_steps() -> None:
    options = options_of("Pendulum-v1", interaction="sequential", action_delay=8)
    env = make_environment(options, 1)
    assert env.get_wrapper_attr("time_limit") == 200 / 8
    env.get_wrapper_attr("cut_first_episode")(np.random.default_rng(0))
    assert isinstance(env.reset()[0], Observation)
    lengths = []
    for _ in range(2):
        steps = 1
        while not env.step(np.zeros(1))[3]:
            steps += 1
        lengths.append(steps)
        env.reset()
    assert lengths[0] < lengths[1] == 25
    assert env.get_wrapper_attr("take_finished_games")() == [(pytest.approx(-1000, abs=900), 25, {})]


def test_every_tick_is_filmed() -> None:
    pictures: list[Any] = []
    options = options_of("CartPole-v1", interaction="sequential", action_delay=4)
    env = make_environment(options, 1, lambda picture, score: pictures.append(score))
    play(env, [1, 0])
    assert pictures == list(range(9))
    assert env.get_wrapper_attr("timeline").playing[:2] == (0, None)


def test_with_a_real_clock_a_step_is_one_tick_and_a_decision_may_be_several() -> None:
    flags = {"interaction": "realtime", "skipped_frames": 4, "reward_clipping_method": "abs_one_sign"}
    options = options_of(RECORDER, env_kwargs='{"space": "box", "rewards": [5]}', **flags)
    env = make_environment(options, 1)
    look = env.get_wrapper_attr("look")
    assert (env.reset()[0].vector == look().vector).all()
    for tick in range(LENGTH):
        seen, reward, terminated, *_ = env.step(np.zeros(2))
        assert (seen.vector == look().vector).all()
        assert (reward, terminated) == (5, tick == LENGTH - 1)
    assert env.get_wrapper_attr("take_finished_games")() == [(5 * LENGTH, -(-LENGTH // 4), {})]


@pytest.mark.parametrize(("env", "rate"), [("CartPole-v1", 50), (RECORDER, 60), ("PongNoFrameskip-v4", 60)])
def test_the_clock_runs_as_fast_as_the_environment_says(env: str, rate: float) -> None:
    given = {"env_kwargs": '{"space": "box"}'} if env == RECORDER else {}
    config = Config.from_flags({"env": env, "interaction": "realtime", **given})
    assert settle_fps(config, check_environment(config.environment)).realtime.fps == rate
    asked = Config.from_flags({"env": env, "interaction": "realtime", "fps": 7.5, **given})
    assert settle_fps(asked, check_environment(asked.environment)).realtime.fps == 7.5


def test_action_masks_are_refused() -> None:
    """In the first reset, which shows whether there are masks."""
    options = options_of("Taxi-v4", interaction="asynchronous", action_delay=1)
    with pytest.raises(UsageError, match="--interaction plays actions later .*; --interaction=turns, or --noaction_m"):
        make_environment(options, 0).reset()
    with_none = options_of("Taxi-v4", interaction="asynchronous", action_delay=1, action_masks=False)
    make_environment(with_none, 0).reset()
