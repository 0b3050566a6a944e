"""PPO over EnvPool on an Atari game, with the settings of CleanRL's `ppo_atari_envpool.py`; the code is our own.

What differs: the learning rate falls to zero over the given time instead of over 10 million steps, which this time
would never reach; and the step on which EnvPool begins a new game, whose action it ignores, is neither learned from
nor counted.
"""

from typing import Any, NamedTuple

import envpool
import numpy as np
import torch
from torch import Tensor, nn

from tests.benchmarks.peer_programs.progress import Arguments, Progress, parse_arguments, usable_cores

ENVS = 8
STEPS = 128
MINIBATCHES = 4
EPOCHS = 4
LEARNING_RATE = 2.5e-4
GAMMA, LAMBDA = 0.99, 0.95
CLIP = 0.1
ENTROPY, VALUE = 0.01, 0.5
GRADIENT_NORM = 0.5


class Rollout(NamedTuple):
    """Steps of all games, [T, B, ...]."""

    observations: Tensor  # uint8
    actions: Tensor
    log_probabilities: Tensor
    values: Tensor
    rewards: Tensor
    ends: Tensor  # 1 where the step ended an episode
    counted: Tensor  # 0 where the action was ignored


class Network(nn.Module):
    """The network of the DQN paper with a head for the policy and one for the value."""

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.torso = nn.Sequential(
            orthogonal(nn.Conv2d(4, 32, 8, stride=4)),
            nn.ReLU(),
            orthogonal(nn.Conv2d(32, 64, 4, stride=2)),
            nn.ReLU(),
            orthogonal(nn.Conv2d(64, 64, 3)),
            nn.ReLU(),
            nn.Flatten(),
            orthogonal(nn.Linear(3136, 512)),
            nn.ReLU(),
        )
        self.policy = orthogonal(nn.Linear(512, actions), 0.01)
        self.value = orthogonal(nn.Linear(512, 1), 1.0)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the probabilities [B, A] and values [B] for observations [B, 4, 84, 84]."""
        features = self.torso(observations.float() / 255)
        return torch.log_softmax(self.policy(features), dim=-1), self.value(features).squeeze(-1)


def orthogonal(layer: Any, gain: float = 2**0.5) -> Any:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Games:
    """Environments of EnvPool and the returns of their whole games, unclipped."""

    def __init__(self, given: Arguments) -> None:
        self._pool = envpool.make(
            f"{given.game}-v5",
            env_type="gymnasium",
            num_envs=ENVS,
            num_threads=usable_cores(),
            seed=given.seed,
            episodic_life=True,
            reward_clip=True,
        )
        self.actions = int(self._pool.action_space.n)
        self.observation = torch.from_numpy(self._pool.reset()[0])
        self.starts = np.zeros(ENVS, dtype=bool)  # games whose next step is a reset
        self._returns = np.zeros(ENVS)

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, list[float]]:
        """Rewards [B], ends of episodes [B], and the returns of the games that ended."""
        observation, reward, terminated, truncated, info = self._pool.step(actions.numpy().astype(np.int32))
        self.observation = torch.from_numpy(observation)
        self._returns += info["reward"]
        over = np.logical_or(info["terminated"], truncated)  # a lost life is not the end of a game
        finished = self._returns[over].tolist()
        self._returns[over] = 0.0
        self.starts = np.logical_or(terminated, truncated)
        return torch.from_numpy(reward.astype(np.float32)), torch.from_numpy(self.starts.astype(np.float32)), finished


def play(games: Games, network: Network, progress: Progress) -> Rollout:
    rows: list[tuple[Tensor, ...]] = []
    with torch.no_grad():
        for _ in range(STEPS):
            observation = games.observation
            counted = torch.from_numpy((~games.starts).astype(np.float32))
            logits, values = network(observation)
            actions = torch.multinomial(logits.exp(), 1).squeeze(-1)
            taken = logits.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
            rewards, ends, finished = games.step(actions)
            progress.finished(finished)
            rows.append((observation, actions, taken, values, rewards, ends, counted))
    return Rollout(*(torch.stack(column) for column in zip(*rows, strict=True)))


def advantages(rollout: Rollout, last_values: Tensor) -> Tensor:
    """Generalised advantage estimates [T, B]."""
    found = torch.zeros_like(rollout.rewards)
    carried, following = torch.zeros_like(last_values), last_values
    for t in reversed(range(len(found))):
        goes_on = 1 - rollout.ends[t]
        error = rollout.rewards[t] + GAMMA * goes_on * following - rollout.values[t]
        carried = error + GAMMA * LAMBDA * goes_on * carried
        found[t], following = carried, rollout.values[t]
    return found


def update(network: Network, optimizer: torch.optim.Optimizer, rollout: Rollout, gains: Tensor) -> None:
    """EPOCHS passes over the rollout, without the steps that do not count."""
    kept = rollout.counted.flatten() > 0
    observations, actions, before, values = (field.flatten(0, 1)[kept] for field in rollout[:4])
    gains = gains.flatten()[kept]
    targets = gains + values
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(gains)).chunk(MINIBATCHES):
            logits, new_values = network(observations[chosen])
            ratio = (logits.gather(-1, actions[chosen].unsqueeze(-1)).squeeze(-1) - before[chosen]).exp()
            gain = gains[chosen]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            policy_loss = -torch.min(gain * ratio, gain * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            near = values[chosen] + (new_values - values[chosen]).clamp(-CLIP, CLIP)
            errors = torch.max((new_values - targets[chosen]) ** 2, (near - targets[chosen]) ** 2)
            entropy = -(logits.exp() * logits).sum(-1).mean()
            loss = policy_loss - ENTROPY * entropy + VALUE * 0.5 * errors.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), GRADIENT_NORM)
            optimizer.step()


def main() -> None:
    given = parse_arguments()
    progress = Progress(given.folder)
    torch.manual_seed(given.seed)
    torch.set_num_threads(usable_cores())
    games = Games(given)
    network = Network(games.actions)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, eps=1e-5)
    agent_steps = 0
    while progress.seconds < given.seconds:
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - progress.seconds / given.seconds)
        rollout = play(games, network, progress)
        with torch.no_grad():
            last_values = network(games.observation)[1]
        update(network, optimizer, rollout, advantages(rollout, last_values))
        agent_steps += int(rollout.counted.sum())
        progress.report(agent_steps)


if __name__ == "__main__":
    main()
