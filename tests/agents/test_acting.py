import copy

import numpy as np
import pytest
import torch

from agents.acting import Actor, ActorState, flat_weights
from agents.learner import Learner
from agents.network import ActorCritic
from agents.training_batch import make_training_batch
from option_flags import LossOptions, OptimizerOptions
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout
from tests.agents.networks import picture_network

ENVIRONMENTS = 3


def varied_network(lstm_size: int, seed: int = 0) -> ActorCritic:
    """A policy that differs between states; an initial one is almost uniform."""
    torch.manual_seed(seed)
    network = picture_network("impala_shallow", (2, 20, 20), 4, lstm_size, projected_size=7)
    torch.nn.init.normal_(network.policy_head.weight, std=5 if lstm_size else 1)
    return network


PARTS_OF_A_STATE = "lstm_state", "previous_actions", "previous_rewards"


def random_observations(environments: int = ENVIRONMENTS, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (environments, 2, 20, 20), dtype=torch.uint8, generator=generator)


def random_state(lstm_size: int, environments: int = ENVIRONMENTS) -> ActorState:
    generator = torch.Generator().manual_seed(1)
    return ActorState(
        lstm_state=torch.randn(environments, 2, lstm_size, generator=generator),
        previous_actions=torch.arange(environments, dtype=torch.int32) % 4,
        previous_rewards=torch.randn(environments, generator=generator),
    )


@torch.inference_mode()
@pytest.mark.parametrize("lstm_size", [0, 5])
@pytest.mark.slow
def test_actor_and_learner_compute_the_same_outputs_from_an_unroll(lstm_size: int) -> None:
    """Three unrolls in a row, as a worker plays them: episodes end within, between and at the start of unrolls."""
    layout = UnrollLayout(
        unroll_length=6, frame_stack=2, frame_shape=(1, 20, 20), action_sizes=(4,), lstm_size=lstm_size, feature_size=7
    )
    network = varied_network(lstm_size)
    learner = Learner(
        copy.deepcopy(network),
        layout,
        LossOptions(),
        OptimizerOptions(),
        schedule_updates=1,
        device=torch.device("cpu"),
    )
    actor = Actor(network)
    rng = np.random.default_rng(0)
    state = ActorState.at_start(ENVIRONMENTS, layout)
    stacks = rng.integers(0, 256, (ENVIRONMENTS, 2, 20, 20), dtype=np.uint8)
    ends = {(0, 2, 0), (0, 5, 1), (1, 0, 1), (1, 3, 1), (1, 4, 1), (1, 5, 2), (2, 5, 0)}  # unroll, step, environment
    for unroll in range(3):
        rows = np.zeros((ENVIRONMENTS, layout.nbytes), np.uint8)
        fields = layout.arrays(rows)
        fields["frames"][:, :2, 0] = stacks
        fields["first_lstm_state"][:] = state.lstm_state
        fields["first_action"][:] = state.previous_actions
        fields["first_reward"][:] = state.previous_rewards
        for t in range(6):
            uniforms = torch.from_numpy(rng.random(ENVIRONMENTS))
            decision = actor.act(torch.from_numpy(stacks.copy()), state, uniforms)
            fields["actions"][:, t], fields["values"][:, t] = decision.actions, decision.values
            fields["behaviour_logits"][:, t], fields["features"][:, t] = decision.logits, decision.features
            state.lstm_state = decision.lstm_state
            for e in range(ENVIRONMENTS):
                frame = fields["frames"][e, 2 + t, 0] = rng.integers(0, 256, (20, 20))
                reward = fields["rewards"][e, t] = rng.normal()
                fields["dones"][e, t] = (unroll, t, e) in ends
                state.previous_actions[e] = int(decision.actions[e])
                state.previous_rewards[e] = float(reward)
                stacks[e] = [stacks[e, 1], frame]
                if (unroll, t, e) in ends:
                    state.restart(e)
                    stacks[e] = frame
        batch = Batch(torch.from_numpy(rows), np.ones(ENVIRONMENTS, bool))
        output = learner.network(make_training_batch(batch, layout, 0.99, learner.device).inputs)
        stored = torch.from_numpy(fields["behaviour_logits"]).transpose(0, 1)
        torch.testing.assert_close(output.logits[:-1], stored, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(output.values[:-1], torch.from_numpy(fields["values"]).T, rtol=1e-5, atol=1e-5)
        assert stored.std() > 0.1
        seen = learner.network.project(output.features[:-1]).transpose(0, 1)
        torch.testing.assert_close(seen, torch.from_numpy(fields["features"]), rtol=2e-3, atol=2e-3)
        assert seen.float().std() > 0.1
        # The last state of an unroll is the first of the next.
        bootstrap = actor.act(torch.from_numpy(stacks), state, torch.zeros(ENVIRONMENTS)).values
        torch.testing.assert_close(output.values[-1], bootstrap, rtol=1e-5, atol=1e-5)


def test_a_game_starts_with_a_zero_lstm_state_and_no_previous_action() -> None:
    state = ActorState.at_start(3, UnrollLayout(1, 2, frame_shape=(1, 20, 20), action_sizes=(4,), lstm_size=5))
    assert state.lstm_state.shape == (3, 2, 5) and not state.lstm_state.any()
    assert state.previous_actions.tolist() == [-1, -1, -1]
    assert state.previous_actions.dtype == torch.int32
    assert state.previous_rewards.tolist() == [0, 0, 0]


def test_a_restart_resets_one_environment_only() -> None:
    state, before = random_state(5), random_state(5)
    state.restart(1)
    fresh = ActorState.at_start(1, UnrollLayout(1, 2, frame_shape=(1, 20, 20), action_sizes=(4,), lstm_size=5))
    for name in PARTS_OF_A_STATE:
        now, then = getattr(state, name), getattr(before, name)
        assert torch.equal(now[[0, 2]], then[[0, 2]])
        assert torch.equal(now[1:2], getattr(fresh, name))
        assert not torch.equal(now[1], then[1])


@pytest.mark.parametrize("lstm_size", [0, 5])
def test_a_decision_has_actions_and_outputs_for_each_environment(lstm_size: int) -> None:
    actor = Actor(varied_network(lstm_size))
    uniforms = torch.tensor([0.05, 0.5, 0.999], dtype=torch.float64)
    decision = actor.act(random_observations(), random_state(lstm_size), uniforms)
    assert decision.actions.shape == (3,) and decision.actions.dtype == torch.int64
    assert decision.logits.shape == (3, 4) and decision.values.shape == (3,)
    assert decision.lstm_state.shape == (3, 2, lstm_size)
    assert decision.features.shape == (3, 7) and decision.features.dtype == torch.float16
    assert torch.equal(decision.actions, actor.distribution.sample(decision.logits, uniforms))
    assert not any(tensor.requires_grad for tensor in decision)


def test_a_uniform_number_decides_one_action_and_nothing_else() -> None:
    actor, state = Actor(varied_network(5)), random_state(5)
    low = actor.act(random_observations(), state, torch.zeros(3))
    mixed = actor.act(random_observations(), state, torch.tensor([0.0, 1 - 2**-24, 0.0]))
    assert low.actions.tolist() == [0, 0, 0]
    assert mixed.actions.tolist() == [0, 3, 0]
    for name in ("logits", "values", "lstm_state"):
        assert torch.equal(getattr(low, name), getattr(mixed, name))


def test_decisions_of_environments_are_independent() -> None:
    actor, state = Actor(varied_network(5)), random_state(5)
    together = actor.act(random_observations(), state, torch.zeros(3))
    for e in range(3):
        own = ActorState(*(getattr(state, name)[e : e + 1] for name in PARTS_OF_A_STATE))
        alone = actor.act(random_observations()[e : e + 1], own, torch.zeros(1))
        torch.testing.assert_close(alone.logits[0], together.logits[e], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(alone.lstm_state[0], together.lstm_state[e], rtol=1e-5, atol=1e-5)


def test_acting_changes_no_input() -> None:
    """At a time limit, the state is used twice: for the value of the final state, and before for its action."""
    actor, state, before = Actor(varied_network(5)), random_state(5), random_state(5)
    observations = random_observations()
    actor.act(observations, state, torch.zeros(3))
    assert torch.equal(observations, random_observations())
    for name in PARTS_OF_A_STATE:
        assert torch.equal(getattr(state, name), getattr(before, name))


def test_the_lstm_state_matters_only_with_an_lstm() -> None:
    for lstm_size in (0, 5):
        actor = Actor(varied_network(lstm_size))
        remembered = actor.act(random_observations(), random_state(lstm_size), torch.zeros(3))
        start = ActorState.at_start(
            3, UnrollLayout(1, 2, frame_shape=(1, 20, 20), action_sizes=(4,), lstm_size=lstm_size)
        )
        forgotten = actor.act(random_observations(), start, torch.zeros(3))
        assert torch.equal(remembered.logits, forgotten.logits) == (lstm_size == 0)


def test_loaded_weights_change_the_policy() -> None:
    old, new = varied_network(5, seed=0), varied_network(5, seed=1)
    flat = flat_weights(new)
    actor, expected = Actor(old), Actor(new)
    before = actor.act(random_observations(), random_state(5), torch.zeros(3)).logits
    actor.load(flat)
    after = actor.act(random_observations(), random_state(5), torch.zeros(3)).logits
    assert torch.equal(after, expected.act(random_observations(), random_state(5), torch.zeros(3)).logits)
    assert not torch.isclose(after, before).any()
