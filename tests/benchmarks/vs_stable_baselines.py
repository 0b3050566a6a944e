"""CartPole end to end: steps per second of this platform and of PPO in Stable-Baselines3, in turns.

    pip install stable-baselines3
    python -m tests.benchmarks.vs_stable_baselines [--seconds=12] [--rounds=3]

Stable-Baselines3 runs in two ways, each with DummyVecEnv and with SubprocVecEnv: with the settings that its own zoo
publishes for CartPole, and with 128 environments and one pass over each batch, which makes most steps. The faster
vector environment counts. Speeds are those after the first seconds, with learning.
"""

import argparse
import statistics
import subprocess
import sys
import textwrap
from typing import Any

from tests.benchmarks.runs import train

PEER = textwrap.dedent("""
    import sys, time
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    WARM_UP = 3.0

    class Timer(BaseCallback):
        def __init__(self, seconds):
            super().__init__()
            self.seconds, self.began, self.marks = seconds, time.monotonic(), []

        def _on_rollout_start(self):  # after each update
            now = time.monotonic()
            if now - self.began > WARM_UP:
                self.marks.append((now, self.num_timesteps))

        def _on_step(self):
            return not self.marks or self.marks[-1][0] - self.marks[0][0] < self.seconds

    if __name__ == "__main__":
        settings, kind, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
        torch.set_num_threads(2)
        vector = SubprocVecEnv if kind == "subprocess" else DummyVecEnv
        if settings == "zoo":
            count = 8
            flags = dict(n_steps=32, batch_size=256, gae_lambda=0.8, gamma=0.98, n_epochs=20, ent_coef=0.0)
        else:
            count = 128
            flags = dict(n_steps=32, batch_size=4096, n_epochs=1)
        environments = make_vec_env("CartPole-v1", n_envs=count, vec_env_cls=vector)
        timer = Timer(seconds)
        PPO("MlpPolicy", environments, device="cpu", learning_rate=1e-3, clip_range=0.2, **flags).learn(
            10**9, callback=timer
        )
        (begin, first), (end, last) = timer.marks[0], timer.marks[-1]
        print((last - first) / (end - begin))
        environments.close()
""")
PEERS = {"zoo settings": "zoo", "one pass, 128 environments": "fast"}
KINDS = ("dummy", "subprocess")


def ours(flags: dict[str, Any], seconds: float) -> float:
    preset = {"flagfile": "docs/presets/cartpole.flags", "environment_max_steps": 10**9}
    return train({**preset, "report_period": 20_000, **flags}, seconds).steps_per_second  # as in the preset


def peer(settings: str, kind: str, seconds: float) -> float:
    words = [sys.executable, "-c", PEER, settings, kind, str(seconds)]
    shown = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return float(shown.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    ratios: dict[str, list[float]] = {name: [] for name in PEERS}
    for index in range(given.rounds):
        own = ours({}, given.seconds)
        print(f"round {index + 1}: this platform {own:,.0f} steps/s", flush=True)
        for name, settings in PEERS.items():
            speeds = {kind: peer(settings, kind, given.seconds) for kind in KINDS}
            best = max(speeds.values())
            ratios[name].append(own / best)
            described = ", ".join(f"{kind} {speed:,.0f}" for kind, speed in speeds.items())
            print(f"  Stable-Baselines3, {name}: {described} steps/s; ratio {own / best:.2f}", flush=True)
    for name, found in ratios.items():
        print(f"{name}: median ratio {statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})")


if __name__ == "__main__":
    main()
