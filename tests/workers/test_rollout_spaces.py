"""Unrolls of environments with pictures, vectors and every kind of action, compared with a second environment."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from agents.acting import Decision
from agents.spaces import unroll_layout
from agents.training_batch import rebuild_stacks
from option_flags import Config
from replay.row_layout import Rows
from replay.unroll_layout import ActionKind, UnrollLayout
from tests.scripted_spaces import SIZES, MakeScripted, ScriptedSpaces
from workers.policies import ActingPolicy
from workers.policy_inputs import PolicyInputs
from workers.rollout import Rollout, SeededEnvironment, each_action
from wrappers.environment import environment_spec

ENVIRONMENTS, STEPS = 2, 5


class RandomPolicy(ActingPolicy):
    """Chooses random actions and remembers which observations it saw."""

    def __init__(self, layout: UnrollLayout) -> None:
        self.groups = (slice(0, ENVIRONMENTS),)
        self.inputs = PolicyInputs.at_start(ENVIRONMENTS, layout)
        self.uniforms: list[NDArray[np.float64]] = []
        self._layout = layout
        self._rng = np.random.default_rng(0)

    def request(self, group: int) -> None:
        self.uniforms.append(self.inputs.uniforms.numpy().copy())

    def result(self, group: int) -> tuple[Decision, int]:
        shape = (ENVIRONMENTS, *self._layout.action_shape)
        if self._layout.action_kind == "gaussian":
            actions = torch.from_numpy(self._rng.normal(size=shape).astype(np.float32))
        else:
            sizes = self._layout.action_sizes or self._layout.action_count
            actions = torch.from_numpy(self._rng.integers(sizes, size=shape))
        numbers = torch.randn(ENVIRONMENTS, self._layout.action_count)
        features, memory = torch.zeros(ENVIRONMENTS, 0).half(), torch.zeros(ENVIRONMENTS, 2, 0)
        return Decision(actions, numbers, torch.zeros(ENVIRONMENTS), features, memory), 0

    def value_of(self, environment: int) -> float:
        newest = self.inputs.observations[environment, ..., -1:]
        return 1000 + float(self.inputs.vectors[environment].sum()) + float(newest.sum())


def vectors_of(layout: UnrollLayout, rows: Rows) -> NDArray[np.float32]:
    vectors: NDArray[np.float32] = layout.array(rows, "vectors").astype(np.float32)
    return vectors


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize(("pictures", "vectors"), [(True, False), (False, True), (True, True)])
def test_unrolls_hold_what_the_environments_returned(kind: ActionKind, pictures: bool, vectors: bool) -> None:
    make = MakeScripted(pictures, vectors, kind)
    config = Config().replace_flags(r_f_steps=STEPS)
    layout = unroll_layout(config, environment_spec(make(config.environment, 0)))
    policy = RandomPolicy(layout)
    environments = [
        SeededEnvironment(make(config.environment, e), e, np.random.default_rng(e)) for e in range(ENVIRONMENTS)
    ]
    rollout = Rollout(environments, policy, layout)
    shadows: list[ScriptedSpaces] = [make(config.environment, e) for e in range(ENVIRONMENTS)]
    seen = [shadow.reset()[0] for shadow in shadows]
    for _ in range(4):
        rows = np.full((ENVIRONMENTS, layout.nbytes), 255, np.uint8)
        rollout.collect(rows)
        unroll = layout.arrays(rows)
        assert unroll["actions"].shape == (ENVIRONMENTS, STEPS, *layout.action_shape)
        pictures_seen: Any = None
        vectors_seen = vectors_of(layout, rows) if vectors else None
        if pictures:
            pictures_seen = rebuild_stacks(torch.tensor(unroll["frames"]), torch.tensor(unroll["dones"])).numpy()
        for e, shadow in enumerate(shadows):
            for t in range(STEPS + 1):
                if pictures:
                    np.testing.assert_array_equal(pictures_seen[t, e, -1], seen[e].frame[0])
                if vectors_seen is not None:
                    np.testing.assert_array_equal(vectors_seen[e, t], seen[e].vector)
                if t == STEPS:
                    break
                seen[e], reward, terminated, truncated, _ = shadow.step(unroll["actions"][e, t])
                assert unroll["rewards"][e, t] == np.float32(reward)
                assert unroll["dones"][e, t] == (terminated or truncated)
                value = 1000 + float(seen[e].vector.sum()) + float(seen[e].frame.sum())
                assert unroll["bootstraps"][e, t] == (value if truncated else 0)
                games = shadow.take_finished_games()
                assert unroll["game_lengths"][e, t] == (games[0].length if games else 0)
                if terminated or truncated:
                    seen[e] = shadow.reset()[0]


@pytest.mark.parametrize("kind", SIZES)
def test_the_action_before_is_shown_and_forgotten_at_an_episodes_end(kind: ActionKind) -> None:
    make = MakeScripted(False, True, kind)
    config = Config().replace_flags(r_f_steps=1)
    layout = unroll_layout(config, environment_spec(make(config.environment, 0)))
    environments = [SeededEnvironment(make(config.environment, e), e, np.random.default_rng(e)) for e in range(2)]
    rollout = Rollout(environments, RandomPolicy(layout), layout)
    none = 0 if kind == "gaussian" else -1
    before = np.full((ENVIRONMENTS, *layout.action_shape), none)
    for _ in range(14):
        rows = np.zeros((ENVIRONMENTS, layout.nbytes), np.uint8)
        rollout.collect(rows)
        unroll = layout.arrays(rows)
        np.testing.assert_array_equal(unroll["first_action"], before)
        before = unroll["actions"][:, 0].copy()
        before[unroll["dones"][:, 0] == 1] = none


@pytest.mark.parametrize("kind", SIZES)
def test_each_action_has_uniform_numbers_of_its_own(kind: ActionKind) -> None:
    """The numbers of an environment depend on its generator alone, whichever environments are beside it."""
    make = MakeScripted(True, False, kind)
    config = Config().replace_flags(r_f_steps=STEPS)
    layout = unroll_layout(config, environment_spec(make(config.environment, 0)))
    environments = [SeededEnvironment(make(config.environment, e), e, np.random.default_rng(e)) for e in range(2)]
    policy = RandomPolicy(layout)
    rollout = Rollout(environments, policy, layout)
    rollout.collect(np.zeros((ENVIRONMENTS, layout.nbytes), np.uint8))
    for e in range(ENVIRONMENTS):
        rng = np.random.default_rng(e)
        for drawn in policy.uniforms:
            np.testing.assert_array_equal(drawn[e], rng.random(layout.action_shape))


def test_an_environment_without_snapshots_begins_a_new_episode() -> None:
    make = MakeScripted(True, True, "product")
    config = Config().replace_flags(r_f_steps=3)
    layout = unroll_layout(config, environment_spec(make(config.environment, 0)))

    def rollout() -> Rollout:
        environments = [SeededEnvironment(make(config.environment, e), e, np.random.default_rng(e)) for e in range(2)]
        return Rollout(environments, RandomPolicy(layout), layout)

    first, second = rollout(), rollout()
    first.collect(np.zeros((ENVIRONMENTS, layout.nbytes), np.uint8))
    second.restore(first.snapshot())
    rows = np.zeros((ENVIRONMENTS, layout.nbytes), np.uint8)
    second.collect(rows)
    unroll = layout.arrays(rows)
    assert (unroll["first_action"] == -1).all()
    vectors = vectors_of(layout, rows)
    assert (vectors[:, 0, 0] == 0).all(), "the first state is that of an episode's start"
    assert (vectors[:, 1, 0] == 1).all()


def test_a_round_shows_signs_of_life_for_each_reset_and_step() -> None:
    """The limit of time that a worker has is for a step, so a round of any length may take longer."""
    make = MakeScripted(False, True, "discrete")
    config = Config().replace_flags(r_f_steps=STEPS)
    layout = unroll_layout(config, environment_spec(make(config.environment, 0)))
    environments = [SeededEnvironment(make(config.environment, e), e, np.random.default_rng(e)) for e in range(2)]
    signs: list[None] = []
    rollout = Rollout(environments, RandomPolicy(layout), layout, alive=lambda: signs.append(None))
    assert len(signs) == len(environments)
    rollout.collect(np.zeros((ENVIRONMENTS, layout.nbytes), np.uint8))
    assert len(signs) == len(environments) + STEPS


def test_an_array_of_an_action_outlives_the_decision() -> None:
    """With --inference=learner, the next decision is written in its place, and delayed actions come later."""
    actions = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    chosen = each_action(actions)
    actions.zero_()
    assert [action.tolist() for action in chosen] == [[1.0, 2.0], [3.0, 4.0]]
