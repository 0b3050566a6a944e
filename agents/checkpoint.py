"""The trained weights on disk. A full checkpoint will hold more; this is its place."""

from pathlib import Path

import torch

from agents.run_folder import write_atomically
from option_flags import Config

FORMAT_VERSION = 1


def save_weights(path: Path, network: torch.nn.Module, config: Config, agent_steps: int, updates: int) -> None:
    """Write the weights, and the configuration to build their network again; only tensors and plain values."""
    content = {
        "format_version": FORMAT_VERSION,
        "options": config.flags(),
        "agent_steps": agent_steps,
        "updates": updates,
        "network": {name: tensor.cpu() for name, tensor in network.state_dict().items()},
    }
    write_atomically(path, lambda file: torch.save(content, file))
