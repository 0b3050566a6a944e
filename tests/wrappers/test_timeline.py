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
from wrappers.emulator import NOOP, Frame
from wrappers.environment import EnvironmentSpec
from wrappers.timeline import DelayedTimeline, Effect

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


class Steps:
    """Agent steps of a scripted game, as a rollout makes them. They note the effects; each decision has one."""

    def __init__(self, script: Script, options: EnvironmentOptions) -> None:
        self.game = ScriptedFrames(script)
        spec = EnvironmentSpec(frame_shape=(0, 0, 0), action_sizes=(ACTIONS,), can_snapshot=True)
        self.timeline = DelayedTimeline(spec, options, self.game.lives)
        self._options = options
        self.effects: list[Effect] = []
        self.over = False

    def reset(self, seed: int) -> None:
        self.game.reset(seed=seed)
        self.timeline.begin()
        self.over = False

    def step(self, number: int, action: int) -> None:
        """With `episodic_life`, a lost life ends the episode, as in `AtariGame`."""
        lives, timeline = self.game.lives(), self.timeline
        timeline.step = number
        timeline.decide(action)
        for _ in range(self._options.frames_per_step):
            _, reward, terminated, truncated, _ = self.game.step(timeline.next_action(self.game.np_random))
            timeline.played(reward)
            if terminated or truncated:
                break
        self.over = terminated or truncated
        life_lost = self._options.episodic_life and 0 < self.game.lives() < lives
        if self.over or life_lost:
            timeline.end(cut=truncated and not life_lost)
        self.effects += timeline.take_effects()


class Record(NamedTuple):
    """One game from its start to its end."""

    decisions: list[int]
    actions: list[int]  # of the frames
    effects: list[Effect]
    idle_frames: int


class Outcome(NamedTuple):
    """What the slow version expects of a decision that has an effect."""

    decision: int
    reward: float
    frames: int
    ended: bool = False
    cut: bool = False


def outcomes(effects: list[Effect]) -> list[Outcome]:
    found = [effect for effect in effects if effect.frames]
    return [Outcome(each.decision or 0, each.reward, each.frames, each.ended, each.cut) for each in found]


def options_of(
    interaction: str, delay: int, skip: int, idle: str = "noop", episodic: bool = False
) -> EnvironmentOptions:
    return EnvironmentOptions(
        interaction=interaction, action_delay=delay, skipped_frames=skip, idle_action=idle, episodic_life=episodic
    )


def play(script: Script, options: EnvironmentOptions) -> Record:
    steps = Steps(script, options)
    steps.reset(seed=0)
    decisions: list[int] = []
    rng = np.random.default_rng(0)
    while not steps.over:
        decisions.append(int(rng.integers(1, ACTIONS)))
        steps.step(len(decisions) - 1, decisions[-1])
    frames, idle = steps.timeline.take_frames()
    assert frames == len(script.rewards)
    return Record(decisions, steps.game.played, steps.effects, idle)


def slow_choices(decisions: int, frames: int, options: EnvironmentOptions) -> list[tuple[int | None, bool]]:
    """For each frame the decision that took effect last, if any, and whether its action is still held."""
    choices = []
    for frame in range(frames):
        starts = [i * options.frames_per_step + options.action_delay for i in range(decisions)]
        begun = [i for i, start in enumerate(starts) if start <= frame]
        latest = begun[-1] if begun else None
        choices.append((latest, latest is not None and frame < starts[latest] + options.skipped_frames))
    return choices


def slow_outcomes(script: Script, decisions: int, options: EnvironmentOptions) -> list[Outcome]:
    """The outcomes of all decisions that have an effect, by the definition, one after the other."""
    period, frames = options.frames_per_step, len(script.rewards)
    losses = []  # (frame that lost a life, end of its agent step) where this ended the learner's episode
    for begin in range(0, frames, period):
        end = min(begin + period, frames)
        lives = [script.lives[max(0, begin - 1)], *script.lives[begin:end]]
        lost = [begin + f for f in range(end - begin) if 0 < lives[f + 1] < lives[f]]
        episode_ends = options.episodic_life and 0 < lives[-1] < lives[0]
        game_ends = end == frames and not script.truncated
        if lost and (episode_ends or game_ends):
            losses.append((lost[-1], end))
    found = []
    for decision in range(decisions):
        made, start = decision * period, decision * period + options.action_delay
        stop = start + period
        loss = next(((lost, end) for lost, end in losses if made < end and lost < stop), None)
        if start >= frames or (loss is not None and start > loss[0]):
            continue  # the game, or the episode, ended before the action took effect
        end = min(stop, frames if loss is None else loss[1])
        cut = loss is None and script.truncated and frames <= stop
        ended = loss is not None or frames <= stop
        found.append(Outcome(decision, sum(script.rewards[start:end]), end - start, ended, cut))
    return found


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
    assert outcomes(record.effects) == slow_outcomes(script, len(record.decisions), options)
    assert sorted(effect.decision or 0 for effect in record.effects) == list(range(len(record.decisions)))
    assert all(effect.age == options.action_delay for effect in record.effects if effect.frames)


def test_the_rewards_of_a_game_are_those_of_its_effects_and_of_the_frames_before_the_first() -> None:
    """An example by hand: a delay of 6 frames, 4 frames a step, a game of 20 frames that ends."""
    script = Script([float(frame) for frame in range(20)], [3] * 20, truncated=False)
    asynchronous = play(script, options_of("asynchronous", 6, 4))
    assert outcomes(asynchronous.effects) == [
        (0, 6 + 7 + 8 + 9.0, 4, False, False),
        (1, 10 + 11 + 12 + 13.0, 4, False, False),
        (2, 14 + 15 + 16 + 17.0, 4, False, False),
        (3, 18 + 19.0, 2, True, False),
    ]
    assert asynchronous.actions[:6] == [NOOP] * 6 and asynchronous.idle_frames == 6
    sequential = play(script, options_of("sequential", 6, 4))
    assert outcomes(sequential.effects) == [
        (0, 6 + 7 + 8 + 9 + 10 + 11.0, 6, False, False),
        (1, 12 + 13 + 14 + 15 + 16 + 17.0, 6, False, False),
        (2, 18 + 19.0, 2, True, False),
    ]
    first, second, third = sequential.decisions[:3]
    held = [NOOP] * 6 + [first] * 4 + [NOOP] * 2 + [second] * 4 + [NOOP] * 2 + [third] * 2
    assert sequential.actions == held and sequential.idle_frames == 10


def test_a_random_idle_action_is_held_for_an_agent_step_and_repeats_with_the_seed() -> None:
    script = Script([0.0] * 400, [0] * 400, truncated=True)
    steps = Steps(script, options_of("asynchronous", 400, 4, "random"))
    actions = []
    for seed in (1, 1, 2):
        steps.reset(seed)
        for number in range(100):
            steps.step(number, 1)
        actions.append(np.array(steps.game.played))
    np.testing.assert_array_equal(actions[0], actions[1])
    assert (actions[0] != actions[2]).any()
    held = actions[0].reshape(100, 4)
    assert (held == held[:, :1]).all() and set(held[:, 0]) == set(range(ACTIONS))


def test_the_age_of_the_screen_behind_each_frame() -> None:
    shown: dict[str, list[Any]] = {}
    for idle in ("noop", "repeat"):
        timeline = Steps(Script([0.0], [0], truncated=True), options_of("sequential", 5, 3, idle)).timeline
        shown[idle] = []
        for frame in range(16):
            if frame % 5 == 0:
                timeline.decide(2)
            timeline.next_action(np.random.default_rng(0))
            shown[idle].append(timeline.playing[:2])
            timeline.played(0.0)
    none, held = (NOOP, None), [(2, 5), (2, 6), (2, 7)]
    assert shown["noop"] == [none] * 5 + held + [none] * 2 + held + [none] * 2 + held[:1]
    repeated = [*held, (2, 8), (2, 9)]
    assert shown["repeat"] == [none] * 5 + repeated + repeated + held[:1]


@given(scripts(), arms(), st.integers(0, 5))
def test_a_restored_game_goes_on_as_the_one_that_was_saved(script: Script, arm: EnvironmentOptions, count: int) -> None:
    first, second = Steps(script, arm), Steps(script, arm)
    first.reset(seed=3)
    second.reset(seed=4)
    for number in range(count):
        if first.over:
            return
        first.step(number, 1)
    second.game.restore(first.game.snapshot())
    second.timeline.restore(first.timeline.state())
    first.effects.clear()
    for number in range(count, count + len(script.rewards)):
        if first.over:
            break
        first.step(number, 2)
        second.step(number, 2)
        assert second.timeline.playing[:2] == first.timeline.playing[:2]
    assert second.effects == first.effects
    assert second.game.played == first.game.played
    assert second.timeline.take_frames() == first.timeline.take_frames()


def test_what_a_wrapper_presses_in_a_step_is_credited_to_the_decision_of_this_step() -> None:
    """Two more presses after the second decision, as after a lost life, and one during a reset."""
    for delay in (0, 2, 5):
        timeline = Steps(Script([0.0], [0], truncated=True), options_of("asynchronous", delay, 2)).timeline
        effects: list[Effect] = []
        for step, presses in ((0, 1), (1, 3), (2, 1), (3, 1), (4, 1), (5, 1)):
            timeline.step = step
            for _ in range(presses):
                timeline.decide(1)
                for _ in range(2):
                    timeline.next_action(np.random.default_rng(0))
                    timeline.played(1.0)
            effects += timeline.take_effects()
        found = [(effect.decision, effect.reward, effect.frames) for effect in effects]
        assert found[:3] == [(0, 2.0, 2), (1, 6.0, 6), (2, 2.0, 2)]
        timeline.end(cut=False)
        timeline.take_effects()
        timeline.step = None
        for _ in range(2 * delay + 4):
            timeline.decide(1)
            timeline.next_action(np.random.default_rng(0))
            timeline.played(1.0)
        assert timeline.take_effects() == []


def test_a_delay_as_long_as_a_game_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^--action_delay=200 is not shorter than a game"):
        EnvironmentOptions(interaction="sequential", action_delay=200, max_game_frames=200)
