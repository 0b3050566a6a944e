"""Steps a worker's environments with the policy's actions, and writes unrolls."""

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import Decision
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout, add_game_info
from workers.policies import ActingPolicy
from workers.policy_inputs import PolicyInputs, as_stacks
from workers.randomness import HeldActions, RewardWatch
from workers.shared_array import ENVIRONMENT, INFERENCE, REST, WEIGHTS, WorkerClock
from wrappers.environment import FAILED_RESETS, FinishedGame, Observation, as_observation, environment_spec

Unrolls = dict[str, NDArray[Any]]  # the fields of an unroll of each environment


@dataclass
class SeededEnvironment:
    """One environment, and the random generator that draws its actions."""

    env: gymnasium.Env[Any, Any]
    environment_id: int
    uniforms: np.random.Generator
    held_actions: HeldActions | None = None  # if it explores

    def __post_init__(self) -> None:
        self.take_finished_games = self.env.get_wrapper_attr("take_finished_games")
        self._can_snapshot = environment_spec(self.env).can_snapshot
        self.finished_games: deque[FinishedGame] = deque()
        self.failed_resets: list[str] = []  # those that were tried again, until they are reported

    def reset(self) -> Observation:
        seen, info = self.env.reset()
        self.failed_resets += info.get(FAILED_RESETS, ())
        return as_observation(seen)

    def note_finished_games(self) -> None:
        """Take over the games that have ended, until an unroll stores them. Those with held actions do not count."""
        finished = self.take_finished_games()
        if finished and not (self.held_actions and self.held_actions.end_game()):
            self.finished_games.extend(FinishedGame(*game) for game in finished)

    def snapshot(self) -> dict[str, Any]:
        return {
            "game": self.env.get_wrapper_attr("snapshot")() if self._can_snapshot else None,
            "uniforms": json.dumps(self.uniforms.bit_generator.state),
            "finished_games": [list(game) for game in self.finished_games],
            **({"held_actions": self.held_actions.snapshot()} if self.held_actions else {}),
        }

    def restore(self, state: dict[str, Any]) -> None:
        if state["game"] is not None:
            self.env.get_wrapper_attr("restore")(state["game"])
        self.uniforms.bit_generator.state = json.loads(state["uniforms"])
        self.finished_games = deque(FinishedGame(*game) for game in state["finished_games"])
        if self.held_actions:
            self.held_actions.restore(state["held_actions"])


class Rollout:
    """Steps E environments, in the groups for which the policy chooses actions together.

    What the policy sees (observations, previous actions and rewards, LSTM state, uniform numbers) is written straight
    into `policy.inputs`. While one group is stepped, the policy may compute the actions of the others.
    """

    def __init__(
        self,
        environments: Sequence[SeededEnvironment],
        policy: ActingPolicy,
        layout: UnrollLayout,
        clock: WorkerClock | None = None,
        alive: Callable[[], None] = lambda: None,  # called after each step of the environments
    ) -> None:
        self._environments = environments
        self._reward_watch = RewardWatch(layout.unroll_length * len(environments))
        self._clock = clock or WorkerClock()
        self._alive = alive
        self._policy = policy
        self._layout = layout
        self._vectors = policy.inputs.vectors.numpy()  # [E, D], the same memory
        self._stacks = as_stacks(policy.inputs.observations, layout)  # [E, S, C, H, W], the same memory
        self._state = policy.inputs.state
        self._previous_rewards = self._state.previous_rewards.numpy()  # same memory; numpy writes faster
        for e, environment in enumerate(environments):
            policy.inputs.show(e, environment.reset(), starts=True)
            alive()

    @torch.inference_mode()
    def collect(self, rows: Rows) -> None:
        """Play T steps in each environment, and write an unroll of each to `rows [E, nbytes]`."""
        self._play(self._layout.arrays(rows))

    def _play(self, unrolls: Unrolls) -> None:
        """Play T steps in each environment and write them to `unrolls`."""
        self._policy.refresh()
        self._clock.lap(WEIGHTS)
        write_start(unrolls, self._layout, self._policy.inputs, self._environments)
        # The memory is that of an earlier round, so fields that are not written at every step are cleared.
        for name in ("bootstraps", "game_returns", "game_lengths"):
            unrolls[name][:] = 0
        if self._layout.tells_of_games:
            unrolls["game_info"][:] = 0
        explores = False
        if self._layout.explores:
            unrolls["held"][:] = 0
            explores = self._reward_watch.finds_few
        versions = set()
        self._clock.lap(REST)
        for group in range(len(self._policy.groups)):
            self._request(group)
        for t in range(self._layout.unroll_length):
            for group, environments in enumerate(self._policy.groups):
                decision, version = self._policy.result(group)
                versions.add(version)
                if explores:
                    self._explore(decision, unrolls, environments, t)
                write_decision(unrolls, decision, environments, t)
                self._state.lstm_state[environments] = decision.lstm_state
                self._state.previous_actions[environments] = decision.actions.to(self._state.previous_actions.dtype)
                self._clock.lap(INFERENCE)
                for e, action in enumerate(each_action(decision.actions), environments.start):
                    self._step(e, action, unrolls, t)
                if self._layout.vector_length:
                    unrolls["vectors"][environments, t + 1] = self._vectors[environments]
                if t + 1 < self._layout.unroll_length:  # the next unroll starts with newer weights
                    self._request(group)
                self._clock.lap(ENVIRONMENT)
            self._alive()
        if self._layout.explores:
            self._reward_watch.note(unrolls["rewards"], unrolls["held"])
        unrolls["weight_version"][:] = min(versions)

    def _request(self, group: int) -> None:
        environments = self._policy.groups[group]
        shape = self._layout.action_shape
        uniforms = [environment.uniforms.random(shape) for environment in self._environments[environments]]
        self._policy.inputs.uniforms[environments] = torch.from_numpy(np.array(uniforms, np.float64))
        self._policy.request(group)

    def snapshot(self) -> dict[str, Any]:
        """The environments and the policy's inputs, in plain values and bytes."""
        return {
            "seats": [environment.snapshot() for environment in self._environments],
            **({"observations": self._stacks.tobytes()} if self._stacks.size else {}),
            **({"vectors": self._vectors.tobytes()} if self._vectors.size else {}),
            "lstm_state": self._state.lstm_state.tolist(),
            "previous_actions": self._state.previous_actions.tolist(),
            "previous_rewards": self._state.previous_rewards.tolist(),
            "rewarded": list(self._reward_watch.counts),
        }

    @torch.inference_mode()
    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot of as many environments with the same options."""
        state = self._state
        self._reward_watch.counts.extend(snapshot["rewarded"])
        stacks = np.frombuffer(snapshot.get("observations", b""), np.uint8).reshape(self._stacks.shape)
        vectors = np.frombuffer(snapshot.get("vectors", b""), np.float32).reshape(self._vectors.shape)
        for e, (environment, seat) in enumerate(zip(self._environments, snapshot["seats"], strict=True)):
            environment.restore(seat)
            if seat["game"] is None:
                continue  # an environment that cannot be restored: the episode of `__init__` goes on
            self._stacks[e], self._vectors[e] = stacks[e], vectors[e]
            for name in ("lstm_state", "previous_actions", "previous_rewards"):
                into = getattr(state, name)
                into[e] = torch.tensor(snapshot[name][e], dtype=into.dtype)

    def _explore(self, decision: Decision, unrolls: Unrolls, environments: slice, t: int) -> None:
        """Put held actions in place of those of the policy."""
        for place, environment in enumerate(self._environments[environments]):
            mask = self._vectors[environments.start + place, self._layout.vector_size :]
            held = environment.held_actions.next(mask) if environment.held_actions else None
            if held is not None:
                decision.actions[place] = torch.from_numpy(held)
                unrolls["held"][environments.start + place, t] = 1

    def _step(self, e: int, action: Any, unrolls: Unrolls, t: int) -> None:
        """One agent step of one environment."""
        environment = self._environments[e]
        observation, reward, terminated, truncated, _ = environment.env.step(action)
        done = terminated or truncated
        self._policy.inputs.show(e, as_observation(observation), starts=False)
        self._previous_rewards[e] = reward
        unrolls["dones"][e, t] = done
        self._note_outcome(unrolls, e, t, float(reward), is_cut=truncated and not terminated)
        if done:
            self._policy.inputs.show(e, environment.reset(), starts=True)
            self._state.restart(e)
            if environment.held_actions:
                environment.held_actions.restart()
        if self._layout.has_pictures:
            unrolls["frames"][e, self._layout.frame_stack + t] = self._stacks[e, -1]
        environment.note_finished_games()
        write_finished_game(unrolls, self._layout, environment, e, t)

    def _note_outcome(self, unrolls: Unrolls, e: int, t: int, reward: float, is_cut: bool) -> None:
        """Write what step t led to; the policy is shown the state after it. `is_cut`: a time limit ends the episode."""
        unrolls["rewards"][e, t] = reward
        if is_cut:
            unrolls["bootstraps"][e, t] = self._policy.value_of(e)


def write_start(
    unrolls: Unrolls, layout: UnrollLayout, inputs: PolicyInputs, environments: Sequence[SeededEnvironment]
) -> None:
    """Write what the policy sees before the first step."""
    if layout.has_pictures:
        unrolls["frames"][:, : layout.frame_stack] = as_stacks(inputs.observations, layout)
    if layout.vector_length:
        unrolls["vectors"][:, 0] = inputs.vectors
    unrolls["first_lstm_state"][:] = inputs.state.lstm_state
    unrolls["first_action"][:] = inputs.state.previous_actions
    unrolls["first_reward"][:] = inputs.state.previous_rewards
    unrolls["environment_id"][:] = [environment.environment_id for environment in environments]


def write_decision(unrolls: Unrolls, decision: Decision, environments: slice, t: int) -> None:
    unrolls["actions"][environments, t] = decision.actions
    unrolls["behaviour_logits"][environments, t] = decision.logits
    unrolls["values"][environments, t] = decision.values
    unrolls["features"][environments, t] = decision.features


def write_finished_game(unrolls: Unrolls, layout: UnrollLayout, environment: SeededEnvironment, e: int, t: int) -> None:
    """Write one finished game. A step has room for one; if a reset ended a second one, the next step stores it."""
    if environment.finished_games:
        game = environment.finished_games.popleft()
        unrolls["game_returns"][e, t], unrolls["game_lengths"][e, t] = game.return_, game.length
        if layout.tells_of_games:
            add_game_info(unrolls["game_info"][e], game.info)


def each_action(actions: torch.Tensor) -> list[Any]:
    """Actions `[E, ...]` as environments take them: whole numbers, or arrays of choices or of real numbers.

    Arrays are copies: the next decision may overwrite this one before a delayed action takes effect.
    """
    chosen: list[Any] = actions.tolist() if actions.dim() == 1 else list(actions.numpy().copy())
    return chosen
