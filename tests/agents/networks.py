"""Helpers: small networks and random inputs."""

import torch

from agents.network import ActorCritic, NetworkInput
from option_flags import NetworkOptions
from replay.unroll_layout import UnrollLayout

FEATURES = {
    "nature": 512,
    "nature_norm": 512,
    "nature_small": 512,
    "impala_shallow": 256,
    "conv3": 512,
    "impala_deep": 256,
}
ACTIONS = 4


def random_input(
    steps: int, batch: int, shape: tuple[int, int, int], lstm_size: int = 0, starts: tuple[int, ...] = (), seed: int = 0
) -> NetworkInput:
    """Random states; in every environment, episodes start at the steps `starts`."""
    generator = torch.Generator().manual_seed(seed)
    inputs = NetworkInput(
        observations=torch.randint(0, 256, (steps, batch, *shape), dtype=torch.uint8, generator=generator),
        previous_actions=torch.randint(0, ACTIONS, (steps, batch), dtype=torch.int32, generator=generator),
        previous_rewards=torch.randn((steps, batch), generator=generator),
        starts=torch.zeros(steps, batch, dtype=torch.bool),
        lstm_state=torch.randn(batch, 2, lstm_size, generator=generator),
    )
    for start in starts:
        inputs.starts[start] = True
        inputs.previous_actions[start] = -1
        inputs.previous_rewards[start] = 0
    return inputs


def picture_network(
    name: str,
    shape: tuple[int, int, int],
    actions: int,
    lstm_size: int = 0,
    compute_dtype: torch.dtype = torch.float32,
    projected_size: int = 0,
) -> ActorCritic:
    """A network for pictures `[S, H, W]` and one of so many actions."""
    layout = UnrollLayout(1, shape[0], lstm_size, projected_size, frame_shape=(1, *shape[1:]), action_sizes=(actions,))
    return ActorCritic(NetworkOptions(network=name), layout, compute_dtype)


def small_network(lstm_size: int = 0, compute_dtype: torch.dtype = torch.float32, seed: int = 0) -> ActorCritic:
    torch.manual_seed(seed)
    network = picture_network("impala_shallow", (2, 20, 20), ACTIONS, lstm_size, compute_dtype, projected_size=3)
    with torch.no_grad():  # a policy that depends on the state and on biases
        for parameter in (*network.policy_head.parameters(), *network.value_head.parameters()):
            parameter.normal_(0, 0.5)
    return network
