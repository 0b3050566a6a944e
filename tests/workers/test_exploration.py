"""Held actions, and what a rollout and the losses make of them."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from agents.acting import Actor
from agents.network import ActorCritic
from agents.training_batch import make_training_batch
from replay.unroll_layout import UnrollLayout
from tests.agents.learners import LAYOUT, make_batch, make_learner, reported
from tests.workers.test_rollout import STEPS as UNROLL
from tests.workers.test_rollout import collect, make_environment, make_rollout
from workers import randomness
from workers.policies import LocalPolicy
from workers.randomness import LONGEST, RARE, WINDOW, HeldActions, RewardWatch, explores
from workers.rollout import Rollout

DISCRETE = UnrollLayout(5, 0, frame_shape=(0, 0, 0), action_sizes=(4,))
PRODUCT = UnrollLayout(5, 0, frame_shape=(0, 0, 0), action_kind="product", action_sizes=(2, 3))
GAUSSIAN = UnrollLayout(5, 0, frame_shape=(0, 0, 0), action_kind="gaussian", action_sizes=(0, 0))
STEPS = 20_000
PLAYED = ("frames", "actions", "rewards", "dones", "game_returns", "game_lengths", "behaviour_logits")
NO_MASK = np.zeros(0, np.float32)


@pytest.mark.parametrize("layout", [DISCRETE, PRODUCT, GAUSSIAN], ids=["discrete", "product", "gaussian"])
def test_some_actions_are_held_for_long(layout: UnrollLayout) -> None:
    held = HeldActions(layout, np.random.default_rng(0))
    actions = [held.next(NO_MASK) for _ in range(STEPS)]
    played = [action for action in actions if action is not None]
    assert 0.4 < len(played) / STEPS < 0.5
    values = np.array(played, np.float64).reshape(len(played), -1)
    lengths = np.diff(np.flatnonzero(np.diff(values, axis=0).any(1)))
    assert LONGEST // 2 < lengths.max() <= 3 * LONGEST, "of several holds of one action, one after another"
    assert all(action.shape == layout.action_shape for action in played)
    if layout.action_kind == "gaussian":
        assert values.min() < -0.9 and values.max() > 0.9 and np.abs(values).max() <= 1
    else:
        for factor, size in enumerate(layout.action_sizes or (layout.action_count,)):
            assert set(values[:, factor]) == set(range(size))


@pytest.mark.parametrize("layout", [DISCRETE, PRODUCT], ids=["discrete", "product"])
def test_what_is_held_is_never_masked(layout: UnrollLayout) -> None:
    layout = dataclasses.replace(layout, mask_size=layout.action_count)
    held, rng, played = HeldActions(layout, np.random.default_rng(0)), np.random.default_rng(1), 0
    for _ in range(2_000):
        mask = (rng.random(layout.action_count) < 0.5).astype(np.float32)
        mask[[1, layout.action_count - 1]] = 1  # one of each factor
        action = held.next(mask)
        if action is not None:
            chosen = np.atleast_1d(action)
            assert mask[chosen + ((0,) if layout.action_kind == "discrete" else (0, 2))].all()
            played += 1
    assert played > 200


def test_a_hold_ends_with_the_episode() -> None:
    held = HeldActions(DISCRETE, np.random.default_rng(0))
    begun = []
    for _ in range(STEPS):
        held.restart()
        begun.append(held.next(NO_MASK) is not None)
    assert 0.08 < np.mean(begun) < 0.12, "each step begins anew"


@pytest.mark.parametrize("layout", [DISCRETE, PRODUCT, GAUSSIAN], ids=["discrete", "product", "gaussian"])
def test_a_restored_one_goes_on_alike(layout: UnrollLayout) -> None:
    first, second = (HeldActions(layout, np.random.default_rng(seed)) for seed in (1, 2))
    for _ in range(50):
        first.next(NO_MASK)
    second.restore(first.snapshot())
    for _ in range(200):
        here, there = first.next(NO_MASK), second.next(NO_MASK)
        assert (here is None) == (there is None)
        assert here is None or there is None or (here.dtype == there.dtype and (here == there).all())


def test_environments_that_explore_are_spread_evenly() -> None:
    assert [e for e in range(64) if explores(e, 1 / 16)] == [15, 31, 47, 63]
    assert not any(explores(e, 0.0) for e in range(9))
    assert sum(explores(e, 0.3) for e in range(100)) == 30


def test_environments_explore_while_rewards_are_rare() -> None:
    watch, steps = RewardWatch(50), WINDOW // 50
    one, none = np.eye(1, 50, dtype=np.float32), np.zeros((1, 50), np.float32)
    free, held = np.zeros((1, 50), np.uint8), np.ones((1, 50), np.uint8)
    for _ in range(steps - 1):
        watch.note(none, free)
        assert not watch.finds_few, "too early to say"
    watch.note(none, free)
    assert watch.finds_few
    for count in range(1, int(RARE * WINDOW) + 1):
        assert watch.finds_few
        watch.note(one, held)  # what a held action found is no reward of the policy
        watch.note(-one, free)
        assert sum(watch.counts) == count
    assert not watch.finds_few
    for _ in range(steps):
        watch.note(none, free)
    assert watch.finds_few


def test_a_rollout_plays_held_actions_and_marks_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments that do not explore play as ever, and a game with a held action does not count."""
    monkeypatch.setattr(randomness, "WINDOW", 1)
    monkeypatch.setattr(randomness, "RARE", 2.0)  # all rewards are
    plain, layout, network = make_rollout(3, 0, time_limit=False)
    pairs = [(collect(plain, layout, 3), after) for after in rounds_of_explorer(1, layout, network, count=30)]
    for before, after in pairs:
        for name in PLAYED:
            np.testing.assert_array_equal(after[name][[0, 2]], before[name][[0, 2]], name)
        assert not after["held"][[0, 2]].any()
    actions, dones, held, lengths = (
        np.concatenate([after[name][1] for _, after in pairs]) for name in ("actions", "dones", "held", "game_lengths")
    )
    held = held.astype(bool)
    assert not held[:UNROLL].any(), "in the first round, it is not known whether rewards are rare"
    assert (
        0 < held.mean() < 1 and (actions[1:][held[1:] & held[:-1]] == actions[:-1][held[1:] & held[:-1]]).mean() > 0.5
    )
    games = np.split(held, np.flatnonzero(dones) + 1)[:-1]
    assert [length > 0 for length in lengths[dones == 1]] == [not game.any() for game in games]
    assert 3 < sum(game.any() for game in games) < len(games) - 3


def test_nothing_changes_where_rewards_are_not_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "WINDOW", 1)  # it is known after a round; a game of Catch has five steps
    plain, layout, network = make_rollout(3, 0, time_limit=False)
    for after in rounds_of_explorer(1, layout, network, count=30):
        before = collect(plain, layout, 3)
        assert not after["held"].any()
        for name in PLAYED:
            np.testing.assert_array_equal(after[name], before[name], name)


def rounds_of_explorer(
    explorer: int, layout: UnrollLayout, network: ActorCritic, count: int
) -> list[dict[str, NDArray[Any]]]:
    layout = dataclasses.replace(layout, explores=True)
    environments = [make_environment(e, False) for e in range(3)]
    environments[explorer].held_actions = HeldActions(layout, np.random.default_rng(5))
    rollout = Rollout(environments, LocalPolicy(Actor(network), layout, 3), layout)
    return [collect(rollout, layout, 3) for _ in range(count)]


def test_the_policy_does_not_learn_from_held_actions_and_the_values_do() -> None:
    layout = dataclasses.replace(LAYOUT, explores=True)
    batch = make_batch([True] * 4, layout)
    fields = layout.arrays(batch.rows.numpy())
    fields["held"][:2] = 1
    report = reported(make_learner(layout=layout), batch)

    other = make_batch([True] * 4, layout)
    others = layout.arrays(other.rows.numpy())
    others["held"][:2] = 1
    others["actions"][:2] = (others["actions"][:2] + 1) % layout.action_count  # the game is the same
    assert reported(make_learner(layout=layout), other)["policy_loss"] == pytest.approx(report["policy_loss"])
    others["rewards"][:2] += 1
    assert reported(make_learner(layout=layout), other)["policy_loss"] == pytest.approx(report["policy_loss"])
    assert reported(make_learner(layout=layout), other)["value_loss"] != pytest.approx(report["value_loss"])


def test_a_held_action_is_corrected_as_one_of_the_policy_itself() -> None:
    layout = dataclasses.replace(LAYOUT, explores=True)
    values = []
    for held in (1, 0):
        batch = make_batch([True] * 4, layout)
        fields = layout.arrays(batch.rows.numpy())
        fields["held"][:] = held
        learner = make_learner(layout=layout)
        if not held:  # the policy that acted is the one that learns
            with torch.no_grad():
                unrolls = make_training_batch(batch, layout, 0.99, torch.device("cpu"))
                logits = learner.network(unrolls.inputs, last_is_bootstrap=True).logits[:-1]
            fields["behaviour_logits"][:] = logits.transpose(0, 1).numpy()
        values.append(reported(learner, batch)["value_loss"])
    assert values[0] == pytest.approx(values[1], rel=1e-4)
