"""How stacks of frames are kept for the network: pixel by pixel, the newest frame last."""

import numpy as np
import pytest
import torch

from replay.unroll_layout import UnrollLayout
from workers.policy_inputs import InferenceRows, PolicyInputs, as_stacks
from wrappers.environment import NO_FRAME, NO_VECTOR, Observation


@pytest.mark.parametrize(("stack", "channels"), [(1, 1), (4, 1), (2, 3), (6, 3)])
def test_networks_and_unrolls_read_the_latest_frames(stack: int, channels: int) -> None:
    """The frames of two environments are put in place in turns, also into memory that has other rows between them."""
    layout = UnrollLayout(5, stack, frame_shape=(channels, 12, 10), action_sizes=(3,))
    inputs = PolicyInputs.at_start(3, layout)
    rng = np.random.default_rng(0)
    latest = [np.zeros((stack, channels, 12, 10), np.uint8) for _ in range(3)]
    for step in range(20):
        for e in (0, 2):  # nothing is written for the one between them
            frame = rng.integers(0, 256, (channels, 12, 10), np.uint8)
            starts = step in (0, 9 + e)
            inputs.show(e, Observation(frame, NO_VECTOR), starts)
            latest[e] = np.stack([frame] * stack) if starts else np.stack([*latest[e][1:], frame])
            frame[:] = 0
        np.testing.assert_array_equal(as_stacks(inputs.observations, layout), latest)
        np.testing.assert_array_equal(inputs.pictures.numpy(), np.reshape(latest, (3, -1, 12, 10)))
    assert np.shares_memory(inputs.pictures.numpy(), inputs.observations)


def test_frames_in_colour_may_be_views_of_pictures_with_the_channels_last() -> None:
    inputs = PolicyInputs.at_start(1, UnrollLayout(5, 2, frame_shape=(3, 4, 6), action_sizes=(3,)))
    pictures = np.random.default_rng(0).integers(0, 256, (2, 4, 6, 3), np.uint8)
    for picture in pictures:
        inputs.show(0, Observation(picture.transpose(2, 0, 1), NO_VECTOR), starts=picture is pictures[0])
    inputs.show(0, Observation(pictures[1].transpose(2, 0, 1), NO_VECTOR), starts=False)
    np.testing.assert_array_equal(inputs.observations[0], np.concatenate([pictures[1], pictures[1]], axis=2))


def test_numbers_are_copied() -> None:
    inputs = PolicyInputs.at_start(2, UnrollLayout(5, 0, frame_shape=(0, 0, 0), action_sizes=(3,), vector_size=2))
    vector = np.array([3, 4], np.float32)
    inputs.show(1, Observation(NO_FRAME, vector), starts=False)
    vector[:] = 0
    assert torch.equal(inputs.vectors, torch.tensor([[0.0, 0.0], [3.0, 4.0]]))


def test_requests_start_episodes_with_the_action_of_the_layout() -> None:
    """It is 0 where actions are real numbers, as in a worker's own copy of the policy."""
    layout = UnrollLayout(3, 0, 4, frame_shape=(0, 0, 0), vector_size=2, action_kind="gaussian", action_sizes=(0, 0))
    state = InferenceRows(layout, workers=1, environments=2).inputs(0).state
    state.previous_actions[:] = 7
    state.restart(1)
    assert state.previous_actions.tolist() == [[7, 7], [0, 0], [7, 7]]
