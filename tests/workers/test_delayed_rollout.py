"""Unrolls of games that do not wait: from a rollout, compared with the same games stepped a second time in the test."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from agents.acting import Actor
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from agents.training_batch import rebuild_stacks
from option_flags import Config, EnvironmentOptions
from replay.unroll_layout import UnrollLayout
from tests.agents.networks import picture_network
from workers.delayed_rollout import DelayedRollout
from workers.policies import LocalPolicy
from workers.rollout import Rollout, SeededEnvironment
from wrappers.atari import make_atari
from wrappers.make_environment import make_environment
from wrappers.timeline import DelayedTimeline, Effect

STEPS, ACTIONS = 5, 4
ENDS = ("dones", "ended", "bootstraps", "valid")
Unroll = dict[str, NDArray[Any]]


def options_of(**flags: Any) -> EnvironmentOptions:
    given = {"env": "BreakoutNoFrameskip-v4", "frames_stacked": 2, "frame_scale_resolution": "36,36", **flags}
    return EnvironmentOptions(**given)


def layout_of(options: EnvironmentOptions) -> UnrollLayout:
    delayed = options.interaction != "turns"
    return UnrollLayout(
        STEPS, 2, frame_shape=(1, 36, 36), action_sizes=(ACTIONS,), lstm_size=4, feature_size=4, delayed_actions=delayed
    )


def make_rollout(options: EnvironmentOptions, environments: int = 2) -> Rollout:
    torch.manual_seed(0)
    layout = layout_of(options)
    network = picture_network("impala_shallow", (2, 36, 36), ACTIONS, 4, projected_size=4)
    policy = LocalPolicy(Actor(network), layout, environments, itertools.count().__next__)
    seeded = [SeededEnvironment(make_atari(options, e), e, np.random.default_rng(e)) for e in range(environments)]
    return (
        DelayedRollout(seeded, policy, layout, options) if layout.delayed_actions else Rollout(seeded, policy, layout)
    )


def collect(rollout: Rollout, options: EnvironmentOptions, rounds: int) -> list[Unroll]:
    layout = layout_of(options)
    unrolls = []
    for _ in range(rounds):
        rows = np.full((2, layout.nbytes), 255, np.uint8)
        rollout.collect(rows)
        unrolls.append(layout.arrays(rows))
    return unrolls


def sign(reward: float) -> float:
    return float(np.sign(reward))


ARMS = [
    {"interaction": "asynchronous", "action_delay": 0},
    {"interaction": "asynchronous", "action_delay": 6, "max_game_frames": 150},
    {"interaction": "asynchronous", "action_delay": 30, "episodic_life": False, "fire_on_life_loss": False},
    {"interaction": "sequential", "action_delay": 7, "idle_action": "repeat"},
    {"interaction": "sequential", "action_delay": 64, "idle_action": "random", "max_game_frames": 300},
]


@pytest.mark.slow
@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: f"{arm['interaction']}-{arm['action_delay']}")
def test_unrolls_hold_the_effects_of_their_actions(arm: dict[str, Any]) -> None:
    """The test steps the same games with the same actions, and counts rewards frame by frame."""
    options = options_of(**arm)
    unrolls = collect(make_rollout(options), options, 7 if options.action_delay > 30 else 24)
    shadows = [make_atari(options, e) for e in range(2)]
    effects = cuts = 0
    for e, shadow in enumerate(shadows):
        timeline: DelayedTimeline = shadow.get_wrapper_attr("timeline")
        seen, _ = shadow.reset()
        expected: dict[int | None, Effect] = {}  # by agent step
        step = 0
        for unroll in unrolls:
            stacks = rebuild_stacks(torch.tensor(unroll["frames"]), torch.tensor(unroll["dones"])).numpy()
            for t in range(STEPS):
                np.testing.assert_array_equal(stacks[t, e, -1], seen)
                timeline.step = step
                seen, reward, terminated, truncated, _ = shadow.step(int(unroll["actions"][e, t]))
                timeline.step = None
                assert unroll["dones"][e, t] == (terminated or truncated)
                assert unroll["seen_rewards"][e, t] == sign(float(reward))
                if terminated or truncated:
                    timeline.end(truncated and not terminated)
                    expected |= {effect.decision: effect for effect in timeline.take_effects()}
                    seen, _ = shadow.reset()
                expected |= {effect.decision: effect for effect in timeline.take_effects()}
                step += 1
        for number, (unroll, t) in enumerate((unroll, t) for unroll in unrolls for t in range(STEPS)):
            if number not in expected:
                continue  # its effect was not complete when the test's games ended
            found = expected[number]
            assert unroll["valid"][e, t] == (found.frames > 0)
            if found.frames:
                effects += 1
                assert unroll["rewards"][e, t] == sign(found.reward)
                assert unroll["ended"][e, t] == found.ended
                assert unroll["durations"][e, t] == found.frames / 4
                assert found.ended or found.frames % options.frames_per_step == 0
                assert unroll["ages"][e, t] == options.action_delay
                assert bool(unroll["bootstraps"][e, t]) == found.cut
                if found.cut and not unroll["dones"][e, t]:  # a later decision of the same game has seen a later screen
                    later = unrolls[(number + 1) // STEPS]["values"][e, (number + 1) % STEPS]
                    assert unroll["bootstraps"][e, t] == later
                    cuts += 1
    assert effects > 15
    assert cuts or options.max_game_frames > 200 or options.interaction == "sequential"


@pytest.mark.slow
@pytest.mark.parametrize("flags", [{"max_game_frames": 200}, {"episodic_life": False}])
def test_without_a_delay_unrolls_are_those_of_turns(flags: dict[str, Any]) -> None:
    turns, delayed = options_of(**flags), options_of(interaction="asynchronous", **flags)
    expected, found = collect(make_rollout(turns), turns, 15), collect(make_rollout(delayed), delayed, 15)
    for first, second in zip(expected, found, strict=True):
        for name, values in first.items():
            np.testing.assert_array_equal(values, second[name], name)
        np.testing.assert_array_equal(second["ended"], first["dones"])
        np.testing.assert_array_equal(second["seen_rewards"], first["rewards"])
        assert (second["valid"] == 1).all() and (second["idle_frames"] == 0).all()
        whole = second["ended"] == 0
        assert set(second["durations"][whole]) <= {1.0, 3.0}, "with a no-op step and FIRE after a lost life, 3"
        assert (second["durations"][~whole] <= 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("arm", ARMS[1:4], ids=lambda arm: f"{arm['interaction']}-{arm['action_delay']}")
def test_a_restored_rollout_goes_on_as_the_one_that_was_saved(arm: dict[str, Any]) -> None:
    options = options_of(**arm)
    first, second = make_rollout(options), make_rollout(options)
    collect(first, options, 7)
    collect(second, options, 2)
    second.restore(first.snapshot())
    for one, other in zip(collect(first, options, 9), collect(second, options, 9), strict=True):
        for name in set(one) - {"weight_version"}:  # the two policies count their own versions
            np.testing.assert_array_equal(one[name], other[name], name)


def make_pendulums() -> tuple[DelayedRollout, UnrollLayout]:
    """Two games whose first episodes are cut, and that cannot be saved."""
    flags = {"env": "Pendulum-v1", "interaction": "asynchronous", "action_delay": 3, "r_f_steps": STEPS}
    config = Config.from_flags(flags)
    layout = make_unroll_layout(config, make_environment)
    policy = LocalPolicy(Actor(ActorCritic(config.network, layout, torch.float32)), layout, 2)
    environments = [make_environment(config.environment, e) for e in range(2)]
    for environment, cut in zip(environments, (18, 10), strict=True):
        draws = {(1, 200, True): cut}
        generator = SimpleNamespace(integers=lambda low, high, endpoint, draws=draws: draws[low, high, endpoint])
        environment.get_wrapper_attr("cut_first_episode")(generator)
    seeded = [SeededEnvironment(each, e, np.random.default_rng(e)) for e, each in enumerate(environments)]
    return DelayedRollout(seeded, policy, layout, config.environment), layout


def test_a_cut_that_the_game_does_not_see_is_a_time_limit() -> None:
    rollout, layout = make_pendulums()
    rows = [np.zeros((2, layout.nbytes), np.uint8) for _ in range(6)]
    for each in rows:
        rollout.collect(each)
    fields = {name: np.concatenate([layout.array(each, name) for each in rows], axis=1) for name in ENDS}
    for e in range(2):
        (done,) = np.flatnonzero(fields["dones"][e])
        assert np.flatnonzero(fields["ended"][e]).tolist() == [done - 3], "three later decisions did not take effect"
        assert np.flatnonzero(fields["bootstraps"][e]).tolist() == [done - 3]
        assert np.flatnonzero(fields["valid"][e] == 0).tolist() == [done - 2, done - 1, done]


def test_decisions_of_a_game_that_cannot_be_restored_teach_nothing() -> None:
    first, layout = make_pendulums()
    second, _ = make_pendulums()
    rows = np.zeros((2, layout.nbytes), np.uint8)
    first.collect(rows)
    second.restore(first.snapshot())
    second.collect(rows)
    assert layout.array(rows, "valid").tolist() == [[1, 1, 0, 0, 0]] * 2
