"""How long until a return: this platform with nothing but --env, beside the tuned PPO of Stable-Baselines3, in turns.

    pip install stable-baselines3
    python -m tests.benchmarks.time_to_return [--envs=CartPole-v1,Acrobot-v1,LunarLander-v3] [--seeds=61,62,63]
    python -m tests.benchmarks.time_to_return --peer_returns [--envs=CartPole-v1,Acrobot-v1,Pendulum-v1] [--seeds=51,…]

The second one only trains Stable-Baselines3, for the steps of docs/results.md, and prints its mean return.

Times are those of whole commands, from the start of Python until the mean return of the last 100 training games is
the wanted one. Stable-Baselines3 has the settings that its zoo publishes (`hyperparams/ppo.yml`). Nothing else should
run meanwhile.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from typing import NamedTuple

from tests.benchmarks.runs import ROOT

PEER = textwrap.dedent("""
    import sys
    import numpy as np
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    class Until(BaseCallback):
        def _on_step(self):
            games = self.model.ep_info_buffer
            return len(games) < 100 or np.mean([game["r"] for game in games]) < wanted

    env, wanted, seed, steps = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)  # faster for networks of this size than two
    falling = lambda value: lambda left: left * value
    zoo = {
        "CartPole-v1": dict(n_envs=8, n_steps=32, batch_size=256, gae_lambda=0.8, gamma=0.98, n_epochs=20,
            ent_coef=0.0, learning_rate=falling(1e-3), clip_range=falling(0.2)),
        "Acrobot-v1": dict(normalize=True, n_envs=16, n_steps=256, gae_lambda=0.94, gamma=0.99, n_epochs=4,
            ent_coef=0.0),
        "LunarLander-v3": dict(n_envs=16, n_steps=1024, batch_size=64, gae_lambda=0.98, gamma=0.999, n_epochs=4,
            ent_coef=0.01),
        "Pendulum-v1": dict(n_envs=4, n_steps=1024, gae_lambda=0.95, gamma=0.9, n_epochs=10, ent_coef=0.0,
            learning_rate=1e-3, use_sde=True, sde_sample_freq=4),
        # Those of the zoo for the room of 5 x 5.
        "MiniGrid-DoorKey-6x6-v0": dict(normalize=True, n_envs=8, n_steps=128, batch_size=64, gae_lambda=0.95,
            gamma=0.99, n_epochs=10, ent_coef=0.0, learning_rate=2.5e-4),
    }[env]
    wrapper = None
    if env.startswith("MiniGrid-"):
        from minigrid.wrappers import FlatObsWrapper as wrapper
    environments = make_vec_env(env, n_envs=zoo.pop("n_envs"), seed=seed, wrapper_class=wrapper)
    if zoo.pop("normalize", False):
        environments = VecNormalize(environments, gamma=zoo["gamma"])
    model = PPO("MlpPolicy", environments, seed=seed, device="cpu", **zoo)
    model.learn(steps, callback=Until())
    print("return", np.mean([game["r"] for game in model.ep_info_buffer]))
    print("steps", model.num_timesteps if model.num_timesteps < steps else "not reached")
""")


class Goal(NamedTuple):
    wanted: float
    own_steps: int  # after which a run gives up
    peer_steps: int  # as in the zoo; its learning rate may fall until then
    compared_steps: int  # of the table of returns


GOALS = {
    "CartPole-v1": Goal(475, 200_000, 100_000, 100_000),
    "Acrobot-v1": Goal(-100, 200_000, 1_000_000, 200_000),
    "LunarLander-v3": Goal(200, 500_000, 1_000_000, 500_000),
    "Pendulum-v1": Goal(-250, 300_000, 100_000, 300_000),
    "MiniGrid-DoorKey-6x6-v0": Goal(0.9, 500_000, 500_000, 350_000),
}
TIMED = ("CartPole-v1", "Acrobot-v1", "LunarLander-v3")  # by default


class Run(NamedTuple):
    seconds: float
    steps: int | None  # None: the return was not reached

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s" + (f", {self.steps:,} steps" if self.steps else ", not reached")


def ours(env: str, goal: Goal, seed: int) -> Run:
    with tempfile.TemporaryDirectory() as results:
        flags = (f"--env={env}", f"--seed={seed}", f"--results_dir={results}", "--console=plain", "--nocurves")
        ends = (f"--stop_at_return={goal.wanted:g}", f"--environment_max_steps={goal.own_steps}")
        seconds, shown = timed([sys.executable, "main.py", "--op_mode=train", *flags, *ends])
    steps = int(re.findall(r"at ([\d,]+) agent steps", shown)[-1].replace(",", ""))
    return Run(seconds, steps if steps < goal.own_steps else None)


def peer(env: str, goal: Goal, seed: int) -> Run:
    seconds, shown = train_peer(env, goal.wanted, seed, goal.peer_steps)
    steps = shown.split("steps ")[-1].strip()
    return Run(seconds, int(steps) if steps.isdecimal() else None)


def peer_return(env: str, goal: Goal, seed: int) -> str:
    """Its mean return of the last 100 training games at the end."""
    seconds, shown = train_peer(env, float("inf"), seed, goal.compared_steps)
    found = float(shown.split("return ")[-1].split()[0])
    return f"{env}, seed {seed}: {found:.1f} after {goal.compared_steps:,} steps, {seconds:.0f} s"


def train_peer(env: str, wanted: float, seed: int, steps: int) -> tuple[float, str]:
    """The seconds that it takes until this return, or so many steps, and what it prints."""
    return timed([sys.executable, "-c", PEER, env, str(wanted), str(seed), str(steps)])


def timed(command: list[str]) -> tuple[float, str]:
    """The seconds that a command takes, and what it prints."""
    began = time.monotonic()
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return time.monotonic() - began, shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=lambda text: text.split(","), default=list(TIMED))
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[61, 62, 63])
    parser.add_argument("--peer_returns", action="store_true")
    given = parser.parse_args()
    if given.peer_returns:
        for env in given.envs:
            for seed in given.seeds:
                print(peer_return(env, GOALS[env], seed), flush=True)
        return
    for env in given.envs:
        ratios = []
        for seed in given.seeds:
            own, other = ours(env, GOALS[env], seed), peer(env, GOALS[env], seed)
            print(f"{env}, seed {seed}: this platform {own}; Stable-Baselines3 {other}", flush=True)
            if own.steps and other.steps:
                ratios.append(other.seconds / own.seconds)
        if ratios:
            shown = f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
            print(f"{env}: times as fast as Stable-Baselines3, median {shown} of {len(ratios)} pairs", flush=True)


if __name__ == "__main__":
    main()
