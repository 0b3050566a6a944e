"""RLlib's IMPALA on an Atari game, as `rllib/examples/algorithms/impala/pong_impala.py` of Ray runs it.

Wrappers, connectors, losses and schedules are those of the example. What differs: frames of 84×84 instead of 64×64
with the network of the DQN paper, as in all other arms; for few cores, as many env runners as cores; and rewards are
clipped by a wrapper, because `clip_rewards`, which the example sets, has no effect with RLlib's new API stack.
"""

import gymnasium as gym
import ray
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule
from ray.rllib.connectors.learner.frame_stacking import FrameStackingLearner
from ray.rllib.env.wrappers.atari_wrappers import (
    ClipRewardEnv,
    EpisodicLifeEnv,
    get_wrapper_by_cls,
    wrap_atari_for_new_api_stack,
)
from ray.tune.registry import register_env

from tests.benchmarks.peer_programs.progress import (
    Arguments,
    GamesFile,
    Progress,
    parse_arguments,
    usable_cores,
)

ENVS_PER_RUNNER = 10
STACK = 4
# Filters, kernel, stride. The last one covers its whole input, so it is a dense layer of 512 units.
NETWORK = [[32, 8, 4, "valid"], [64, 4, 2, "valid"], [64, 3, 1, "valid"], [512, 7, 1, "valid"]]


class RecordGames(gym.Wrapper):
    """Around the bare game: adds up its rewards before they are clipped, over all lives."""

    def __init__(self, env, games: GamesFile) -> None:  # type: ignore[no-untyped-def]
        super().__init__(env)
        self._games = games
        self._return = 0.0

    def reset(self, **kwargs):  # type: ignore[no-untyped-def]
        self._return = 0.0
        return self.env.reset(**kwargs)

    def step(self, action):  # type: ignore[no-untyped-def]
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        if terminated or truncated:
            self._games.add(self._return)
        return observation, reward, terminated, truncated, info


class ResetTruncated(gym.Wrapper):
    """A game that its time limit ends begins anew: RLlib's EpisodicLifeEnv would go on with it for ever."""

    def step(self, action):  # type: ignore[no-untyped-def]
        result = self.env.step(action)
        if result[3]:
            get_wrapper_by_cls(self.env, EpisodicLifeEnv).was_real_terminated = True
        return result


def configure(given: Arguments) -> IMPALAConfig:
    # The settings of the game are those of NoFrameskip-v4.
    words = {"frameskip": 1, "full_action_space": False, "repeat_action_probability": 0.0}
    game, folder = f"ale_py:ALE/{given.game}-v5", given.folder

    def make_env(config):  # type: ignore[no-untyped-def]
        recorded = RecordGames(gym.make(game, **config), GamesFile(folder))
        return ClipRewardEnv(ResetTruncated(wrap_atari_for_new_api_stack(recorded, dim=84, framestack=None)))

    register_env("game", make_env)
    return (
        IMPALAConfig()
        .environment("game", env_config=words)
        .env_runners(
            env_to_module_connector=lambda env, spaces, device: FrameStackingEnvToModule(num_frames=STACK),
            num_env_runners=usable_cores(),
            num_envs_per_env_runner=ENVS_PER_RUNNER,
        )
        .learners(
            learner_connector=lambda observations, actions: FrameStackingLearner(num_frames=STACK),
            num_learners=1,
        )
        .training(
            train_batch_size_per_learner=500,
            grad_clip=30.0,
            grad_clip_by="global_norm",
            lr=0.0009,
            vf_loss_coeff=1.0,
            entropy_coeff=[[0, 0.02], [3_000_000, 0.0]],
        )
        .rl_module(
            model_config={
                "vf_share_layers": True,
                "conv_filters": NETWORK,
                "conv_activation": "relu",
            }
        )
        .reporting(min_time_s_per_iteration=5)
        .debugging(seed=given.seed)
    )


def main() -> None:
    given = parse_arguments()
    progress, games = Progress(given.folder), GamesFile(given.folder)
    # Env runners and learner take one CPU each in Ray's books; the system shares the real cores between them.
    ray.init(num_cpus=2 * usable_cores() + 2, num_gpus=0, include_dashboard=False)
    algorithm = configure(given).build_algo()
    while progress.seconds < given.seconds:
        result = algorithm.train()
        progress.finished(games.new())
        progress.report(int(result["env_runners"].get("num_env_steps_sampled_lifetime", 0)))
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
