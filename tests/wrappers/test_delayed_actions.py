"""Delayed actions, frame by frame, in a game that follows a script, against a slow version of the definition."""

from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hypothesis import given
from hypothesis import strategies as st

from option_flags import EnvironmentOptions
from options.rules import UsageError
from tests.catch import Repeat
from wrappers.delayed_actions import DelayedActions, Effect, Played
from wrappers.emulator import NOOP, Frame

ACTIONS = 5


class Script(NamedTuple):
    """A game: its reward and its number of lives after each frame, and how it ends after the last one."""

    rewards: list[float]
    lives: list[int]
    truncated: bool


class ScriptedFrames(gymnasium.Env[Frame, int]):
    """The raw frames of a script. `played` has the action of each frame, `shown` what a spectator sees of it."""

    def __init__(self, script: Script) -> None:
        self.action_space = Discrete(ACTIONS)  # type: ignore[assignment]
        self.observation_space = Box(0, 255, (1, 1), np.uint8)
        self._script = script
        self.played: list[int] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        super().reset(seed=seed)
        self.played = []
        return np.empty(0, np.uint8), {}

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        frame = len(self.played)
        self.played.append(action)
        over = len(self.played) == len(self._script.rewards)
        truncated = over and self._script.truncated
        return np.empty(0, np.uint8), self._script.rewards[frame], over and not truncated, truncated, {}

    def lives(self) -> int:
        return self._script.lives[max(0, len(self.played) - 1)]

    def snapshot(self) -> dict[str, Any]:
        return {"played": list(self.played), "generator": self.np_random.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        self.played = list(state["played"])
        self.np_random.bit_generator.state = state["generator"]


class Record(NamedTuple):
    """One game from its start to its end."""

    decisions: list[int]
    actions: list[int]  # of the frames
    effects: list[Effect]
    idle_frames: int


def options_of(
    interaction: str, delay: int, skip: int, idle: str = "noop", episodic: bool = False
) -> EnvironmentOptions:
    return EnvironmentOptions(
        interaction=interaction, action_delay=delay, skipped_frames=skip, idle_action=idle, episodic_life=episodic
    )


def chain(script: Script, options: EnvironmentOptions) -> tuple[ScriptedFrames, DelayedActions, Repeat]:
    game = ScriptedFrames(script)
    delayed = DelayedActions(game, options)
    return game, delayed, Repeat(delayed, options.frames_per_step)


def play(script: Script, options: EnvironmentOptions) -> Record:
    game, delayed, env = chain(script, options)
    env.reset(seed=0)
    decisions, effects, over = [], [], False
    rng = np.random.default_rng(0)
    while not over:
        decisions.append(int(rng.integers(1, ACTIONS)))
        *_, terminated, truncated, _ = env.step(decisions[-1])
        over = terminated or truncated
        effects += delayed.take_effects()
    return Record(decisions, game.played, effects, delayed.take_frames()[1])


def slow_choices(decisions: int, frames: int, options: EnvironmentOptions) -> list[tuple[int | None, bool]]:
    """For each frame the decision that took effect last, if any, and whether its action is still held."""
    choices = []
    for frame in range(frames):
        starts = [i * options.frames_per_step + options.action_delay for i in range(decisions)]
        begun = [i for i, start in enumerate(starts) if start <= frame]
        latest = begun[-1] if begun else None
        choices.append((latest, latest is not None and frame < starts[latest] + options.skipped_frames))
    return choices


def slow_effects(script: Script, decisions: int, options: EnvironmentOptions) -> list[Effect]:
    """The effects of all decisions, by the definition, one after the other."""
    period, frames = options.frames_per_step, len(script.rewards)
    losses = []  # (frame that lost a life, end of its agent step) where this ended the learner's episode
    for begin in range(0, frames, period):
        end = min(begin + period, frames)
        lives = [script.lives[max(0, begin - 1)], *script.lives[begin:end]]
        if options.episodic_life and 0 < lives[-1] < lives[0] and (end < frames or script.truncated):
            losses.append((begin + max(f for f in range(end - begin) if lives[f + 1] < lives[f]), end))
    effects = []
    for decision in range(decisions):
        made, start = decision * period, decision * period + options.action_delay
        stop = start + period
        loss = next(((lost, end) for lost, end in losses if made < end and lost < stop), None)
        if start >= frames or (loss is not None and start > loss[0]):
            continue  # the game, or the episode, ended before the action took effect
        if loss is not None:
            effects.append(Effect(decision, sum(script.rewards[start : min(stop, loss[1])]), ended=True))
        else:
            reward, last = sum(script.rewards[start:stop]), frames <= stop
            cut = last and script.truncated
            effects.append(Effect(decision, reward, last and not cut, cut, frames - start if cut else 0))
    return effects


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    length = draw(st.integers(1, 50))
    losses = draw(st.lists(st.integers(0, length - 1), max_size=4))
    lives = [4 - sum(lost <= frame for lost in losses) for frame in range(length)]
    rewards = draw(st.lists(st.integers(-3, 3).map(float), min_size=length, max_size=length))
    return Script(rewards, lives, draw(st.booleans()))


@st.composite
def arms(draw: st.DrawFn) -> EnvironmentOptions:
    return options_of(
        draw(st.sampled_from(["asynchronous", "sequential"])),
        draw(st.integers(0, 20)),
        draw(st.integers(1, 5)),
        draw(st.sampled_from(["noop", "repeat", "random"])),
        draw(st.booleans()),
    )


@given(scripts(), arms())
def test_actions_and_effects_agree_with_the_definition(script: Script, options: EnvironmentOptions) -> None:
    record = play(script, options)
    choices = slow_choices(len(record.decisions), len(script.rewards), options)
    assert record.idle_frames == sum(not held for _, held in choices)
    for action, (latest, held) in zip(record.actions, choices, strict=True):
        if latest is not None and (held or options.idle_action == "repeat"):
            assert action == record.decisions[latest]
        elif options.idle_action != "random":
            assert action == NOOP
    assert record.effects == slow_effects(script, len(record.decisions), options)


def test_the_rewards_of_a_game_are_those_of_its_effects_and_of_the_frames_before_the_first() -> None:
    """An example by hand: a delay of 6 frames, 4 frames a step, a game of 20 frames that ends."""
    script = Script([float(frame) for frame in range(20)], [3] * 20, truncated=False)
    asynchronous = play(script, options_of("asynchronous", 6, 4))
    assert [(effect.decision, effect.reward, effect.ended) for effect in asynchronous.effects] == [
        (0, 6 + 7 + 8 + 9.0, False),
        (1, 10 + 11 + 12 + 13.0, False),
        (2, 14 + 15 + 16 + 17.0, False),
        (3, 18 + 19.0, True),
    ]
    assert asynchronous.actions[:6] == [NOOP] * 6 and asynchronous.idle_frames == 6
    sequential = play(script, options_of("sequential", 6, 4))
    assert [(effect.decision, effect.reward, effect.ended) for effect in sequential.effects] == [
        (0, 6 + 7 + 8 + 9 + 10 + 11.0, False),
        (1, 12 + 13 + 14 + 15 + 16 + 17.0, False),
        (2, 18 + 19.0, True),
    ]
    first, second, third = sequential.decisions[:3]
    held = [NOOP] * 6 + [first] * 4 + [NOOP] * 2 + [second] * 4 + [NOOP] * 2 + [third] * 2
    assert sequential.actions == held and sequential.idle_frames == 10


def test_a_random_idle_action_is_held_for_an_agent_step_and_repeats_with_the_seed() -> None:
    script = Script([0.0] * 400, [0] * 400, truncated=True)
    options = options_of("asynchronous", 400, 4, "random")
    game, _, env = chain(script, options)
    actions = []
    for seed in (1, 1, 2):
        env.reset(seed=seed)
        for _ in range(100):
            env.step(1)
        actions.append(np.array(game.played))
    np.testing.assert_array_equal(actions[0], actions[1])
    assert (actions[0] != actions[2]).any()
    held = actions[0].reshape(100, 4)
    assert (held == held[:, :1]).all() and set(held[:, 0]) == set(range(ACTIONS))


def test_the_age_of_the_screen_behind_each_frame() -> None:
    script = Script([0.0] * 16, [0] * 16, truncated=True)
    shown: dict[str, list[Played]] = {}
    for idle in ("noop", "repeat"):
        _, delayed, env = chain(script, options_of("sequential", 5, 3, idle))
        env.reset(seed=0)
        shown[idle] = []
        for _ in script.rewards:
            delayed.step(2)
            shown[idle].append(delayed.played())
    none, held = Played(NOOP, None), [Played(2, 5), Played(2, 6), Played(2, 7)]
    assert shown["noop"] == [none] * 5 + held + [none] * 2 + held + [none] * 2 + held[:1]
    repeated = [*held, Played(2, 8), Played(2, 9)]
    assert shown["repeat"] == [none] * 5 + repeated + repeated + held[:1]


@given(scripts(), arms(), st.integers(0, 5))
def test_a_restored_game_goes_on_as_the_one_that_was_saved(script: Script, arm: EnvironmentOptions, steps: int) -> None:
    _, delayed, env = chain(script, arm)
    env.reset(seed=3)
    for _ in range(steps):
        *_, terminated, truncated, _ = env.step(1)
        if terminated or truncated:
            return
    state = delayed.snapshot()
    _, other, other_env = chain(script, arm)
    other_env.reset(seed=4)
    other.restore(state)
    over = False
    while not over:
        stepped, expected = other_env.step(2), env.step(2)
        assert stepped[1:] == expected[1:]
        assert other.take_effects() == delayed.take_effects()
        assert other.played() == delayed.played()
        over = stepped[2] or stepped[3]
    assert other.decision_count() == delayed.decision_count()
    assert other.take_frames() == delayed.take_frames()


def test_a_delay_as_long_as_a_game_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^--action_delay=200 is not shorter than a game"):
        EnvironmentOptions(interaction="sequential", action_delay=200, max_game_frames=200)
