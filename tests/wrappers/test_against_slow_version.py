"""The chain of wrappers plays complete games exactly like a plain, slow version of the same definitions."""

from typing import Any

import ale_py
import cv2
import numpy as np
import numpy.typing as npt
import pytest
from ale_py import roms
from gymnasium.spaces import Discrete

from option_flags import EnvironmentOptions
from options.presets import PRESETS
from wrappers.atari import make_atari
from wrappers.environment import as_observation

pytestmark = pytest.mark.slow

Array = npt.NDArray[np.uint8]


class SlowAtari:
    """All preprocessing in one class, which copies every screen. Observations are frames [channels, height, width]."""

    def __init__(self, game: str, options: EnvironmentOptions, seed: int) -> None:
        self.options = options
        self.generator = np.random.Generator(np.random.PCG64(seed))
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("max_num_frames_per_episode", options.max_game_frames)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(str(roms.get_rom_path(game)))
        minimal = self.ale.getMinimalActionSet()
        self.actions = self.ale.getLegalActionSet() if options.full_action_space else minimal
        self.fires = options.fire_on_reset and minimal[1] == ale_py.Action.FIRE
        self.finished: list[tuple[float, int]] = []
        self.life_lost = False
        self.last_action = 0

    def screen(self) -> Array:
        return self.ale.getScreenGrayscale() if self.options.grayscaling_frames else self.ale.getScreenRGB()

    def frame(self, screen: Array) -> Array:
        height, width = self.options.resolution
        if screen.shape == (210, 160) and (height, width) == (84, 84):
            # Each of the 84×84 areas holds 5 half rows of 40 twenty-firsts of a pixel.
            half_rows = screen.repeat(2, 0).reshape(84, 5, 160).sum(1)
            sums = half_rows.repeat(21, 1).reshape(84, 84, 40).sum(2)
            screen = ((sums + 100) // 200).astype(np.uint8)
        elif screen.shape[:2] != (height, width):
            screen = np.asarray(cv2.resize(screen, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
        return screen.reshape(height, width, -1).transpose(2, 0, 1)

    def raw_frame(self, action: int) -> int:
        sticks = 0 < self.options.repeat_action_probability > self.generator.random()
        self.last_action = self.last_action if sticks else action
        return self.ale.act(self.actions[self.last_action])

    def new_game(self) -> Array:
        self.ale.reset_game()
        self.last_action = 0
        self.score, self.length = 0.0, 0
        if self.options.noop_threshold:
            for _ in range(self.generator.integers(1, self.options.noop_threshold + 1)):
                self.raw_frame(0)
                if self.ale.game_over():
                    self.ale.reset_game()
                    self.last_action = 0
                    break
        self.lives = self.ale.lives()
        return self.frame(self.screen())

    def agent_step(self, action: int) -> tuple[Array, float]:
        screens: list[Array] = []
        reward = 0
        for _ in range(self.options.skipped_frames):
            reward += self.raw_frame(action)
            screens.append(self.screen())
            if self.ale.game_over():
                break
        self.score += reward
        self.length += 1
        if self.ale.game_over():
            self.finished.append((self.score, self.length))

        lives, before = self.ale.lives(), self.lives
        self.lives = lives
        self.life_lost = self.options.episodic_life and not self.ale.game_over() and 0 < lives < before

        ended_early = len(screens) < self.options.skipped_frames and not self.ale.game_truncated()
        return self.frame(screens[-1] if ended_early else np.max(screens[-2:], axis=0)), reward

    def start(self) -> Array:
        if not self.life_lost:
            return self.new_game()
        frame, _ = self.agent_step(0)
        frame = self.new_game() if self.ale.game_over() else frame
        self.life_lost = False
        return frame

    def reset(self) -> Array:
        frame = self.start()
        if self.fires:
            for _ in range(3):
                frame, _ = self.agent_step(1)
                if not (self.ale.game_over() or self.life_lost):
                    break
                frame = self.start()
        return frame

    def clipped(self, reward: float) -> float:
        match self.options.reward_clipping_method:
            case "abs_one_sign":
                return float(np.sign(reward))
            case "abs_one_clamp":
                return float(np.clip(reward, -1, 1))
            case "soft_asymmetric":
                return float(5 * np.tanh(reward / 5) * (0.3 if reward < 0 else 1))
            case _:
                return reward

    def step(self, action: int) -> tuple[Array, float, bool, bool]:
        frame, reward = self.agent_step(action)
        terminated = self.life_lost or self.ale.game_over(with_truncation=False)
        truncated = self.ale.game_truncated() and not terminated
        return frame, self.clipped(reward), terminated, truncated


def assert_plays_equally(options: EnvironmentOptions, seed: int, games: int, steps: int = 20_000) -> dict[str, int]:
    """Compare both with random actions in so many games and the begin of another. Returns counts of what happened."""
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in options.env.removesuffix("NoFrameskip-v4"))
    slow = SlowAtari(name.strip("_"), options, seed)
    env = make_atari(options, seed)
    take_finished_games = env.get_wrapper_attr("take_finished_games")
    finished: list[Any] = []
    left = 100  # steps of the next game
    count = {"terminated": 0, "truncated": 0, "rewards": 0}

    def check(observation: Array, expected: Array) -> None:
        assert observation.shape == env.observation_space.shape
        np.testing.assert_array_equal(as_observation(observation).frame, expected)

    check(env.reset()[0], slow.reset())
    for action in np.random.default_rng(seed).integers(0, len(slow.actions), steps).tolist():
        observation, reward, terminated, truncated, _ = env.step(action)
        expected, expected_reward, expected_terminated, expected_truncated = slow.step(action)
        check(observation, expected)
        assert reward == pytest.approx(expected_reward, rel=1e-12)
        assert (terminated, truncated) == (expected_terminated, expected_truncated)
        count["rewards"] += reward != 0
        count["terminated"] += terminated
        count["truncated"] += truncated
        finished += [game[:2] for game in take_finished_games()]
        assert finished == slow.finished
        if terminated or truncated:
            if len(finished) > games:
                break
            check(env.reset()[0], slow.reset())
        left -= len(finished) >= games
        if not left:
            break
    assert len(finished) >= games
    return count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "lives"), [("Pong", 1), ("Breakout", 5), ("Seaquest", 4), ("Qbert", 4), ("SpaceInvaders", 3)]
)
def test_whole_games(game: str, lives: int) -> None:
    count = assert_plays_equally(EnvironmentOptions(env=f"{game}NoFrameskip-v4"), seed=3, games=1)
    assert count["rewards"] > 0
    assert count["terminated"] >= lives


@pytest.mark.parametrize(
    ("game", "changed"),
    [
        ("Breakout", {"grayscaling_frames": False}),
        ("SpaceInvaders", {"grayscaling_frames": False, "frame_scale_resolution": "210,160", "max_game_frames": 800}),
        ("Breakout", {"frame_scale_resolution": "210,160"}),
        ("Carnival", {"frame_scale_resolution": "60,100", "max_game_frames": 900}),
        ("Breakout", {"skipped_frames": 1}),
        ("SpaceInvaders", {"skipped_frames": 2, "max_game_frames": 800}),
        ("Seaquest", {"skipped_frames": 7}),
        ("Breakout", {"noop_threshold": 0}),
        ("SpaceInvaders", {"repeat_action_probability": 0.25}),
        ("Seaquest", {"reward_clipping_method": "abs_one_clamp"}),
        ("SpaceInvaders", {"reward_clipping_method": "soft_asymmetric"}),
        ("Skiing", {"reward_clipping_method": "soft_asymmetric", "max_game_frames": 400}),
        ("SpaceInvaders", {"reward_clipping_method": "none", "episodic_life": False}),
        ("SpaceInvaders", {"fire_on_reset": False}),
        ("Breakout", {"full_action_space": True}),
        ("Freeway", {"full_action_space": True}),
        ("SpaceInvaders", {"protocol": "machado", **PRESETS["protocol"]["machado"]}),
    ],
)
def test_other_options(game: str, changed: dict[str, Any]) -> None:
    options = EnvironmentOptions(env=f"{game}NoFrameskip-v4", **{"max_game_frames": 1200, **changed})
    assert_plays_equally(options, seed=4, games=1)


def test_without_episodic_life_only_a_finished_game_ends_an_episode() -> None:
    options = EnvironmentOptions(env="BreakoutNoFrameskip-v4", episodic_life=False)
    assert assert_plays_equally(options, seed=5, games=3)["terminated"] == 3


@pytest.mark.parametrize(
    ("game", "limit"),
    [("Freeway", 3), ("Freeway", 302), *(("Seaquest", limit) for limit in (3, 33, 301, 302, 303, 304))],
)
def test_a_time_limit_truncates(game: str, limit: int) -> None:
    """Also limits that are so short that games end during the no-op start or FIRE."""
    options = EnvironmentOptions(env=f"{game}NoFrameskip-v4", max_game_frames=limit, repeat_action_probability=0.25)
    count = assert_plays_equally(options, seed=6, games=5)
    assert count["truncated"] >= 1


def test_games_follow_their_seed() -> None:
    options = EnvironmentOptions(env="SpaceInvadersNoFrameskip-v4")
    actions = np.random.default_rng(0).integers(0, 6, 200).tolist()

    def frames(seed: int, reset_seed: int | None = None) -> list[bytes]:
        env = make_atari(options, seed)
        seen = [env.reset(seed=reset_seed)[0].tobytes()]
        for action in actions:
            observation, _, terminated, truncated, _ = env.step(action)
            seen.append(observation.tobytes())
            if terminated or truncated:
                seen.append(env.reset()[0].tobytes())
        return seen

    assert frames(1) == frames(1)
    assert frames(1) != frames(2)
    assert frames(2, reset_seed=1) == frames(1)


# Pong, and some of the games in which ALE's own reset keeps some state of the previous game.
@pytest.mark.parametrize(
    "game",
    ["Pong", "Assault", "ElevatorAction", "IceHockey", "Solaris", "YarsRevenge"],
)
@pytest.mark.slow
def test_a_seeded_reset_in_the_middle_of_a_game_is_like_a_new_emulator(game: str) -> None:
    options = EnvironmentOptions(env=f"{game}NoFrameskip-v4", repeat_action_probability=0.25)
    used, new = make_atari(options, seed=1), make_atari(options, seed=9)
    assert isinstance(used.action_space, Discrete)
    actions = np.random.default_rng(0).integers(0, used.action_space.n, (2, 400)).tolist()
    used.reset()
    for action in actions[0]:
        if any(used.step(action)[2:4]):
            used.reset()
    np.testing.assert_array_equal(used.reset(seed=9)[0], new.reset()[0])
    for action in actions[1]:
        seen, expected = used.step(action), new.step(action)
        np.testing.assert_array_equal(seen[0], expected[0])
        assert seen[1:4] == expected[1:4]
        if any(seen[2:4]):
            np.testing.assert_array_equal(used.reset()[0], new.reset()[0])


def test_sticky_actions_change_the_game() -> None:
    def last_frame(probability: float, seed: int) -> bytes:
        env = make_atari(EnvironmentOptions(repeat_action_probability=probability, noop_threshold=0), seed)
        env.reset()
        for action in [2, 3] * 30:
            observation = env.step(action)[0]
        return observation.tobytes()

    assert len({last_frame(0.0, seed) for seed in range(3)}) == 1
    assert len({last_frame(0.25, seed) for seed in range(3)}) == 3
