import dataclasses
import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from agents.training_batch import merge_frames, rebuild_stacks, stack_indices
from replay.row_layout import ALIGNMENT, Rows
from replay.unroll_layout import UnrollLayout
from wrappers.environment import as_observation

SPECS = st.builds(
    UnrollLayout,
    unroll_length=st.integers(1, 5),
    frame_stack=st.integers(1, 4),
    frame_shape=st.tuples(st.sampled_from([1, 3]), st.integers(1, 4), st.integers(1, 4)),
    action_sizes=st.tuples(st.integers(1, 18)),
    lstm_size=st.integers(0, 3),
    feature_size=st.integers(0, 3),
)
LAYOUT = UnrollLayout(
    unroll_length=3, frame_stack=2, frame_shape=(3, 2, 2), action_sizes=(4,), lstm_size=2, feature_size=5
)


@settings(deadline=None)
@given(SPECS)
def test_fields_are_aligned_and_do_not_overlap(layout: UnrollLayout) -> None:
    end = 0
    for field in layout.fields:
        assert field.offset >= end
        assert field.offset % ALIGNMENT == 0
        end = field.offset + field.nbytes
    assert end <= layout.nbytes
    assert layout.nbytes % ALIGNMENT == 0


def random_fields(layout: UnrollLayout, unrolls: int) -> dict[str, NDArray[Any]]:
    """Random numbers for each field, in its shape and dtype; 64-bit fields get numbers above 32 bits."""
    rng = np.random.default_rng(1)
    high = {"uint8": 256, "int32": 2**31, "int64": 2**62, "float16": 2**11, "float32": 2**24}
    return {f.name: rng.integers(0, high[f.dtype], (unrolls, *f.shape)).astype(f.dtype) for f in layout.fields}


@settings(deadline=None, max_examples=40)
@given(SPECS, st.integers(1, 3))
def test_arrays_and_tensors_are_equal_and_write_only_their_fields(layout: UnrollLayout, unrolls: int) -> None:
    padding = 0xE7
    rows: Rows = np.full((unrolls, layout.nbytes), padding, np.uint8)
    expected = random_fields(layout, unrolls)
    for name, array in layout.arrays(rows).items():
        array[:] = expected[name]
    tensors = layout.tensors(torch.from_numpy(rows))
    assert list(tensors) == list(expected) == [field.name for field in layout.fields]
    for field in layout.fields:
        for view in (layout.array(rows, field.name), tensors[field.name].numpy()):
            assert view.dtype == field.dtype
            np.testing.assert_array_equal(view, expected[field.name], strict=True)
    used = np.zeros(layout.nbytes, bool)
    for field in layout.fields:
        used[field.offset : field.offset + field.nbytes] = True
    assert (rows[:, ~used] == padding).all()


def test_the_fields_of_an_unroll() -> None:
    shapes = {field.name: (field.shape, field.dtype) for field in LAYOUT.fields}
    assert shapes == {
        "frames": ((5, 3, 2, 2), "uint8"),
        "actions": ((3,), "int32"),
        "rewards": ((3,), "float32"),
        "dones": ((3,), "uint8"),
        "bootstraps": ((3,), "float32"),
        "behaviour_logits": ((3, 4), "float32"),
        "values": ((3,), "float32"),
        "features": ((3, 5), "float16"),
        "game_returns": ((3,), "float32"),
        "game_lengths": ((3,), "int32"),
        "first_lstm_state": ((2, 2), "float32"),
        "first_action": ((), "int32"),
        "first_reward": ((), "float32"),
        "weight_version": ((), "int64"),
        "environment_id": ((), "int32"),
    }


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_arrays_are_views_of_rows_of_any_rank(shape: tuple[int, ...]) -> None:
    rows: Rows = np.zeros((*shape, LAYOUT.nbytes), np.uint8)
    for number, (name, array) in enumerate(LAYOUT.arrays(rows).items(), start=1):
        array[...] = number
        assert (LAYOUT.array(rows, name) == number).all()
        assert np.shares_memory(array, rows)
    assert (LAYOUT.array(rows, "environment_id") == len(LAYOUT.fields)).all()


def test_tensors_are_views() -> None:
    rows = torch.zeros((2, LAYOUT.nbytes), dtype=torch.uint8)
    for number, tensor in enumerate(LAYOUT.tensors(rows).values(), start=1):
        tensor[...] = number
    for number, array in enumerate(LAYOUT.arrays(rows.numpy()).values(), start=1):
        assert (array == number).all()


@pytest.mark.parametrize(
    "shape", [(LAYOUT.nbytes,), (2, LAYOUT.nbytes - 1), (2, LAYOUT.nbytes + 64), (1, 2, LAYOUT.nbytes)]
)
def test_rows_of_another_size_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="bytes expected"):
        LAYOUT.tensors(torch.zeros(shape, dtype=torch.uint8))


def test_different_layouts_have_different_fingerprints() -> None:
    others = [
        dataclasses.replace(LAYOUT, **change)
        for change in (
            {"unroll_length": 4},
            {"frame_stack": 3},
            {"unroll_length": 2, "frame_stack": 3},  # as many frames
            {"frame_shape": (1, 2, 2)},
            {"frame_shape": (3, 4, 1)},  # as many bytes
            {"frame_shape": (2, 3, 2)},
            {"action_sizes": (5,)},
            {"lstm_size": 0},
            {"lstm_size": 3},
            {"feature_size": 0},
            {"feature_size": 6},
        )
    ]
    assert len({layout.fingerprint for layout in [LAYOUT, *others]}) == 1 + len(others)
    assert dataclasses.replace(LAYOUT).fingerprint == LAYOUT.fingerprint


def slow_index(dones: NDArray[np.bool_], t: int, age: int, stack: int) -> int:
    """The index of the frame that is `age` steps older than state t."""
    starts = [s for s in range(1, t + 1) if dones[s - 1]]
    oldest = starts[-1] if starts else -(stack - 1)  # the stack of state 0, as the worker saw it
    return max(t - age, oldest) + stack - 1


@settings(deadline=None)
@given(st.data())
@pytest.mark.slow
def test_stacks_contain_frames_of_their_episode_only(data: st.DataObject) -> None:
    batch, steps, stack = (data.draw(st.integers(1, high)) for high in (3, 8, 5))
    channels = data.draw(st.sampled_from([1, 3]))
    flags = data.draw(st.lists(st.booleans(), min_size=batch * steps, max_size=batch * steps))
    dones = np.array(flags).reshape(batch, steps)
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (batch, steps + stack, channels, 2, 3), dtype=np.uint8)

    indices = stack_indices(torch.from_numpy(dones.astype(np.uint8)), stack)
    stacks = rebuild_stacks(torch.from_numpy(frames), torch.from_numpy(dones))
    assert indices.shape == (batch, steps + 1, stack)
    assert stacks.shape == (steps + 1, batch, stack * channels, 2, 3)
    assert stacks.dtype == torch.uint8
    assert stacks.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)
    for b, t, place in itertools.product(range(batch), range(steps + 1), range(stack)):
        index = slow_index(dones[b], t, stack - 1 - place, stack)
        assert indices[b, t, place] == index
        np.testing.assert_array_equal(stacks[t, b, place * channels : (place + 1) * channels], frames[b, index])


@pytest.mark.parametrize("states", [[0], [4], [1, 3], [3, 0, 3], list(range(5))])
def test_selected_stacks_equal_those_of_all_states(states: list[int]) -> None:
    rng = np.random.default_rng(0)
    frames = torch.from_numpy(rng.integers(0, 256, (6, 4 + 3, 1, 2, 3), dtype=np.uint8))
    dones = torch.from_numpy(rng.random((6, 4)) < 0.4)
    assert torch.equal(rebuild_stacks(frames, dones, states), rebuild_stacks(frames, dones)[states])


@pytest.mark.parametrize(("stack", "channels"), [(1, 1), (4, 1), (2, 3), (1, 3)])
def test_merged_frames_equal_gathered_ones(stack: int, channels: int) -> None:
    rng = np.random.default_rng(0)
    frames = torch.from_numpy(rng.integers(0, 256, (9, channels, 5, 4), dtype=np.uint8))
    rows = torch.from_numpy(rng.integers(0, 9, (3, 2, stack)))
    gathered, merged = frames[rows].flatten(2, 3), merge_frames(frames, rows)
    assert gathered.shape == merged.shape == (3, 2, stack * channels, 5, 4)
    assert torch.equal(gathered, merged)


def test_dones_without_a_batch_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[B, T\]"):
        stack_indices(torch.zeros(4), 2)


class Noise(gymnasium.Env[NDArray[np.uint8], int]):
    """Random frames; `plan` lists the steps that end an episode."""

    def __init__(self, plan: list[bool], frame_shape: tuple[int, ...]) -> None:
        self.observation_space = Box(0, 255, frame_shape, np.uint8)
        self.plan = iter(plan)
        self.rng = np.random.default_rng(0)

    def frame(self) -> NDArray[np.uint8]:
        return self.rng.integers(0, 256, self.observation_space.shape, dtype=np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        return self.frame(), {}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        return self.frame(), 0.0, next(self.plan), False, {}


@settings(deadline=None, max_examples=60)
@given(
    plan=st.lists(st.booleans(), min_size=1, max_size=40),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=8),
    stack=st.integers(1, 5),
    frame_shape=st.sampled_from([(2, 3), (2, 3, 3)]),
)
def test_stacks_are_rebuilt_from_the_frames_of_an_unroll(
    plan: list[bool], lengths: list[int], stack: int, frame_shape: tuple[int, ...]
) -> None:
    environment = Noise(plan, frame_shape)

    def first() -> NDArray[np.uint8]:
        """The stack `[S, C, H, W]` at the start of an episode."""
        return np.stack([as_observation(environment.reset()[0]).frame] * stack)

    states = [first()]
    for _ in plan:
        observation, _, done, _, _ = environment.step(0)
        states.append(first() if done else np.stack([*states[-1][1:], as_observation(observation).frame]))

    start = 0
    for length in lengths:
        dones = plan[start : start + length]
        if not dones:
            break
        seen = states[start : start + len(dones) + 1]
        frames = np.concatenate([seen[0], *(state[-1:] for state in seen[1:])])
        stacks = rebuild_stacks(torch.from_numpy(frames)[None], torch.tensor([dones]))
        expected = np.stack([state.reshape(-1, *state.shape[2:]) for state in seen])
        np.testing.assert_array_equal(stacks[:, 0].numpy(), expected)
        start += len(dones)
