"""Any environment as the agent sees it: rewards, games, limits and seeds, against a definition step by step."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from hypothesis import given
from hypothesis import strategies as st

from tests.wrappers.hand_written import CATCH, Catch, Scripted, adapted, options_of
from wrappers.any_environment.faults import EnvironmentFaultError
from wrappers.environment import EnvironmentSpec, FinishedGame, environment_spec
from wrappers.make_environment import make_environment

NUMBER = spaces.Box(-np.inf, np.inf, (1,), np.float32)
ENDS = st.sampled_from([(True, False), (False, True), (True, True)])


def numbered(count: int) -> list[Any]:
    return [np.array([float(number)], np.float32) for number in range(count)]


@given(
    end=st.integers(1, 9),
    how=ENDS,
    skip=st.integers(1, 4),
    limit=st.integers(1, 12),
    rewards=st.lists(st.integers(-3, 3), min_size=1, max_size=7),
)
def test_games_end_wherever_the_environment_ends_them(
    end: int, how: tuple[bool, bool], skip: int, limit: int, rewards: list[int]
) -> None:
    """Two games, against a definition that looks at each step of the environment."""
    env = Scripted(NUMBER, observations=numbered(1000), rewards=rewards, ends={end: how})
    agent = adapted(env, skipped_frames=skip, max_game_frames=limit)
    seen, step_of_env = 0, 0
    for _ in range(2):
        observation, _ = agent.reset()
        assert observation.vector.tolist() == [seen]
        seen += 1
        game_return, length, frame, over = 0, 0, 0, False
        while not over:
            expected, terminated, truncated = 0, False, False
            for _ in range(skip):
                expected += rewards[step_of_env % len(rewards)]
                step_of_env, frame, seen = step_of_env + 1, frame + 1, seen + 1
                terminated, truncated = how if frame == end else (False, False)
                truncated = truncated or frame == limit
                if terminated or truncated:
                    break
            observation, reward, *ended, _ = agent.step(0)
            assert observation.vector.tolist() == [seen - 1]
            assert (reward, ended) == (expected, [terminated, truncated])
            game_return, length, over = game_return + expected, length + 1, terminated or truncated
            assert agent.take_finished_games() == ([FinishedGame(game_return, length)] if over else [])


def test_an_environment_with_a_time_limit_of_gymnasium_is_truncated_by_it() -> None:
    agent = adapted(TimeLimit(Scripted(NUMBER), max_episode_steps=3))
    agent.reset()
    assert [agent.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


@pytest.mark.parametrize(
    ("method", "seen"), [("none", 2.5), ("abs_one_sign", 1.0), ("abs_one_clamp", 1.0), ("soft_asymmetric", 2.310585)]
)
def test_rewards_are_clipped_for_the_learner_and_not_in_returns(method: str, seen: float) -> None:
    agent = adapted(Scripted(NUMBER, rewards=[2.5], ends={1: (True, False)}), reward_clipping_method=method)
    agent.reset()
    assert agent.step(0)[1] == pytest.approx(seen)
    assert agent.take_finished_games() == [FinishedGame(2.5, 1)]


def test_a_game_that_is_reset_before_its_end_is_dropped() -> None:
    agent = adapted(Scripted(NUMBER, rewards=[1.0], ends={2: (True, False)}))
    agent.reset()
    agent.step(0)
    agent.reset()
    agent.step(0)
    agent.step(0)
    assert agent.take_finished_games() == [FinishedGame(2.0, 2)]


def test_the_first_reset_seeds_and_later_ones_go_on() -> None:
    env = Scripted(NUMBER)
    agent = adapted(env, seed=17)
    for _ in range(3):
        agent.reset()
    assert env.seeds == [17, None, None]


def played(seed: int, **flags: Any) -> list[Any]:
    agent = make_environment(options_of(CATCH, **flags), seed)
    steps: list[Any] = [agent.reset()[0].vector.tolist()]
    for number in range(80):
        observation, reward, terminated, truncated, _ = agent.step(number % 3)
        steps.append((observation.vector.tolist(), reward, terminated, truncated))
        if terminated or truncated:
            steps.append(agent.reset()[0].vector.tolist())
    return steps


@pytest.mark.parametrize("sticky", [0.0, 0.3])
def test_the_seed_decides_everything(sticky: float) -> None:
    assert played(1, repeat_action_probability=sticky) == played(1, repeat_action_probability=sticky)
    assert played(1, repeat_action_probability=sticky) != played(2, repeat_action_probability=sticky)


def test_sticky_actions_do_not_follow_the_environments_own_random_numbers() -> None:
    """An environment may draw one number when it is reset and one in each step, from a generator of the same seed."""
    env = Scripted(NUMBER, spaces.Discrete(2))
    agent = adapted(env, seed=11, repeat_action_probability=0.25)
    agent.reset()
    for number in range(400):
        agent.step(number % 2)
    own = np.random.default_rng(11).random(402)
    repeated = np.array(env.actions[1:]) == np.array(env.actions[:-1])
    assert 0 < repeated.sum() < len(repeated)
    for lag in range(3):
        assert (repeated != (own[lag : lag + len(repeated)] < 0.25)).any()


def test_sticky_actions_repeat_the_latest_action_of_the_game_and_never_the_first_one() -> None:
    env = Scripted(NUMBER, spaces.Discrete(1000), ends={100: (True, False)})
    agent = adapted(env, repeat_action_probability=0.25)
    repeats = 0
    for game in range(20):
        agent.reset()
        for number in range(100):
            agent.step(number + 100 * (game % 2))
            if env.actions[-1] != number + 100 * (game % 2):
                assert number > 0
                assert env.actions[-1] == env.actions[-2]
                repeats += 1
    assert 400 < repeats < 600  # of 1,980 steps after the first ones: 495 are expected


def test_a_skipped_frame_repeats_the_action() -> None:
    env = Scripted(NUMBER)
    agent = adapted(env, skipped_frames=3)
    agent.reset()
    agent.step(2)
    assert env.actions == [2, 2, 2]


def test_the_description_is_that_of_the_spaces() -> None:
    both = spaces.Dict(
        screen=spaces.Box(0, 255, (5, 6, 3), np.uint8), speed=spaces.Box(-1, 1, (2,)), gear=spaces.Discrete(4)
    )
    agent = adapted(Scripted(both, spaces.MultiDiscrete([3, 2])), frames_stacked=2)
    assert environment_spec(agent) == EnvironmentSpec(
        frame_shape=(3, 5, 6),
        vector_size=6,
        one_hot_size=4,
        action_kind="product",
        action_sizes=(3, 2),
        can_snapshot=False,
        vector_dtype="float32",
        tells_of_games=True,
    )
    observation, _ = agent.reset()
    assert (observation.frame.shape, observation.vector.shape) == ((3, 5, 6), (6,))


def test_the_environment_is_watched_in_every_frame() -> None:
    pictures: list[tuple[tuple[int, ...], float]] = []
    options = options_of(CATCH, skipped_frames=2)
    agent = make_environment(options, 4, lambda picture, score: pictures.append((picture.shape, score)))
    agent.reset()
    assert agent.step(2)[2:4] == (False, False)
    assert pictures == [((108, 162, 3), 0.0), ((108, 162, 3), 2.0), ((108, 162, 3), 4.0)]


def test_a_picture_that_cannot_be_shown_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make_environment(options_of(CATCH), 3, lambda picture, score: None)
    agent.reset()
    monkeypatch.setattr(Catch, "render", lambda self: "ansi")
    for play in (lambda: agent.step(0), agent.reset):
        with pytest.raises(EnvironmentFaultError, match="has a fault in .*render returned str instead of a picture"):
            play()


def test_only_a_watched_environment_renders() -> None:
    watched = make_environment(options_of(CATCH), 3, lambda picture, score: None)
    inner = [agent.get_wrapper_attr("env") for agent in (watched, make_environment(options_of(CATCH), 3))]
    assert [env.render_mode for env in inner] == ["rgb_array", None]


@pytest.mark.parametrize("error", [ValueError("no map"), SystemExit(4)])
def test_what_the_environment_raises_is_a_fault(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a game that wants to end the process, as one whose window was closed."""
    env = Scripted(NUMBER)
    agent = adapted(env)
    agent.reset()

    def fail(*arguments: Any, **options: Any) -> None:
        raise error

    for method, play in (("step", lambda: agent.step(0)), ("reset", agent.reset)):
        monkeypatch.setattr(env, method, fail)
        with pytest.raises(EnvironmentFaultError, match=f"{method} raised {type(error).__name__}: ") as raised:
            play()
        assert raised.value.__cause__ is error


@pytest.mark.parametrize("result", [np.zeros(1, np.float32), (np.zeros(1, np.float32), 0.0, False, {})])
def test_a_step_of_the_old_interface_is_a_fault(result: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    env = Scripted(NUMBER)
    agent = adapted(env)
    agent.reset()
    monkeypatch.setattr(env, "step", lambda action: result)
    with pytest.raises(EnvironmentFaultError, match="terminated, truncated and info would be right"):
        agent.step(0)


@pytest.mark.parametrize("size", [1, 2])
def test_a_reset_of_the_old_interface_is_a_fault(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two numbers are no pair of observation and info."""
    env = Scripted(spaces.Box(-1, 1, (size,)))
    agent = adapted(env)
    monkeypatch.setattr(env, "reset", lambda **options: np.zeros(size, np.float32))
    with pytest.raises(EnvironmentFaultError, match="reset returned .*; observation and info would be right"):
        agent.reset()
