"""Observations stored channels last."""

import numpy as np
import pytest
import torch

from replay.unroll_layout import UnrollLayout
from workers.observations import as_batch, as_stacks, observation_shape, put_stack


@pytest.mark.parametrize(("frames", "channels"), [(1, 1), (4, 1), (2, 3), (6, 3)])
def test_networks_and_unrolls_read_the_stacks_that_were_written(frames: int, channels: int) -> None:
    layout = UnrollLayout(5, frames, (channels, 12, 10), 3)
    stacks = np.random.default_rng(0).integers(0, 256, (3, frames, channels, 12, 10), dtype=np.uint8)
    observations = np.zeros((3, *observation_shape(layout)), np.uint8)
    for e in (0, 2):
        put_stack(observations[e], stacks[e])
    stacks[1] = 0  # not written: its neighbours must not overwrite it
    batch = as_batch(torch.from_numpy(observations))
    assert np.array_equal(as_stacks(observations, layout), stacks)
    assert np.array_equal(batch.numpy(), stacks.reshape(3, -1, 12, 10))
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert np.shares_memory(batch.numpy(), observations) and np.shares_memory(as_stacks(observations, layout), batch)
