"""Would Gymnasium's vector form of an environment pay? A worker as it is, and with the vector form, in turns.

    python -m tests.benchmarks.vector_entry_points [--env=CartPole-v1] [--seconds=20] [any flag of main.py]

All stages step as many environments as a worker has, in one process on one core, in turns and by CPU time: other
programs slow all of them, so only the ratios count. The worker with the vector form leaves out what such a worker would
have to add: seeds and results of single environments, values at time limits, and the steps that only reset.
"""

import argparse
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import Actor
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from option_flags import OPTIONS, Config
from options.command_line import given_flags
from replay.unroll_layout import UnrollLayout
from tests.benchmarks.timing import Stage, Times, in_turns, one_core
from workers.policies import LocalPolicy
from workers.rollout import Rollout, SeededEnvironment, write_decision, write_start
from wrappers.make_environment import make_environment

VECTOR, PLAIN, ADAPTED = "vector form", "Gymnasium's environments, one by one", "our environments, one by one"
WORKER, VECTOR_WORKER = "worker", "worker with the vector form"


class VectorRollout(Rollout):
    """Steps all environments with one call."""

    def use(self, environment: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
        self._together = environment

    def _play(self, unrolls: dict[str, NDArray[Any]]) -> None:
        self._policy.refresh()
        write_start(unrolls, self._layout, self._policy.inputs, self._environments)
        everything = slice(0, len(self._environments))
        for t in range(self._layout.unroll_length):
            self._request(0)
            decision, version = self._policy.result(0)
            write_decision(unrolls, decision, everything, t)
            self._state.previous_actions[:] = decision.actions
            seen, rewards, terminated, truncated, _ = self._together.step(decision.actions.numpy())
            done = terminated | truncated
            self._previous_rewards[:] = unrolls["rewards"][:, t] = rewards
            unrolls["dones"][:, t] = done
            for e in np.flatnonzero(done).tolist():
                self._state.restart(e)
            self._vectors[:] = seen
            unrolls["vectors"][:, t + 1] = seen
            unrolls["weight_version"][:] = version


def environment_stages(config: Config) -> list[Stage]:
    """One step of all environments, each with random actions."""
    count, name = config.workers.envs_per_worker, config.environment.env
    generator = np.random.default_rng(0)

    def one_by_one(environments: list[gymnasium.Env[Any, Any]]) -> Callable[[], None]:
        for seed, environment in enumerate(environments):
            environment.reset(seed=seed)
        actions = environments[0].action_space.n  # type: ignore[attr-defined]

        def step() -> None:
            for environment, action in zip(environments, generator.integers(actions, size=count).tolist(), strict=True):
                _, _, terminated, truncated, _ = environment.step(action)
                if terminated or truncated:
                    environment.reset()

        return step

    together = vector_form(config)
    actions = int(together.single_action_space.n)
    ours = one_by_one([make_environment(config.environment, seed) for seed in range(count)])
    plain = one_by_one([gymnasium.make(name, disable_env_checker=True) for _ in range(count)])
    return [
        Stage(ADAPTED, ours, count),
        Stage(PLAIN, plain, count),
        Stage(VECTOR, lambda: together.step(generator.integers(actions, size=count)), count),
    ]


def worker_stages(config: Config, layout: UnrollLayout) -> list[Stage]:
    """All work of a worker for one round of unrolls."""
    count = config.workers.envs_per_worker
    stages = []
    for name, kind in ((WORKER, Rollout), (VECTOR_WORKER, VectorRollout)):
        torch.manual_seed(0)
        policy = LocalPolicy(Actor(ActorCritic(config.network, layout, torch.float32)), layout, count)
        environments = [
            SeededEnvironment(make_environment(config.environment, e), e, np.random.default_rng(e))
            for e in range(count)
        ]
        rollout = kind(environments, policy, layout)
        if isinstance(rollout, VectorRollout):
            rollout.use(vector_form(config))
        stages.append(Stage(name, played(rollout, count, layout), count * layout.unroll_length))
    return stages


def played(rollout: Rollout, count: int, layout: UnrollLayout) -> Callable[[], None]:
    rows = np.zeros((count, layout.nbytes), np.uint8)
    return lambda: rollout.collect(rows)


def vector_form(config: Config) -> Any:
    count = config.workers.envs_per_worker
    together = gymnasium.make_vec(config.environment.env, num_envs=count, vectorization_mode="vector_entry_point")
    together.reset(seed=0)
    return together


def show(times: Times) -> None:
    for name in times.rounds:
        print(f"{name}: {1 / times.seconds(name):,.0f} steps/s")
    for name, other in ((ADAPTED, VECTOR), (ADAPTED, PLAIN), (WORKER, VECTOR_WORKER)):
        print(f"time of {name} / {other}: {times.ratio(name, other):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    own, words = parser.parse_known_args()
    preset = {"env": "CartPole-v1", "envs_per_worker": 32, "r_f_steps": 20}
    config = Config.from_flags({**preset, **given_flags(words, OPTIONS)})
    layout = make_unroll_layout(config, make_environment)
    with one_core():
        show(in_turns([*environment_stages(config), *worker_stages(config, layout)], own.seconds))


if __name__ == "__main__":
    main()
