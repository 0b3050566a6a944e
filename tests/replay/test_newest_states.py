import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.training_batch import rebuild_stacks
from replay.newest_states import NewestStates
from replay.unroll_layout import UnrollLayout
from tests.replay.numbered_rows import through_a_file


@settings(deadline=None, max_examples=60)
@given(
    steps=st.integers(1, 6),
    stack=st.integers(1, 5),
    channels=st.sampled_from([1, 3]),
    environments=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    chance=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 1000),
)
def test_the_last_state_of_each_environments_newest_unroll(
    steps: int, stack: int, channels: int, environments: list[int], chance: float, seed: int
) -> None:
    """Episodes end at random steps, also at the last one."""
    layout = UnrollLayout(steps, stack, frame_shape=(channels, 2, 3), action_sizes=(2,))
    rng = np.random.default_rng(seed)
    newest, expected = NewestStates(layout), {}
    for environment in environments:
        row = rng.integers(0, 256, layout.nbytes, dtype=np.uint8)
        fields = layout.arrays(row)
        fields["environment_id"][...] = environment
        fields["dones"][:] = rng.random(steps) < chance
        frames, dones = (torch.from_numpy(fields[name].copy())[None] for name in ("frames", "dones"))
        expected[environment] = rebuild_stacks(frames, dones)[-1, 0].numpy()
        newest.observe(row)
        row[:] = 0  # the memory of a row is reused
    for states in (newest, restored(newest, layout)):
        np.testing.assert_array_equal(states.states().stacks, np.stack(list(expected.values())))


def restored(newest: NewestStates, layout: UnrollLayout) -> NewestStates:
    other = NewestStates(layout)
    other.load_state_dict(through_a_file(newest.state_dict()))
    return other


def test_newest_states_can_be_saved_before_the_first_unroll() -> None:
    layout = UnrollLayout(2, 2, frame_shape=(1, 2, 3), action_sizes=(2,))
    assert restored(NewestStates(layout), layout).state_dict()["environments"] == []


def test_environments_without_new_unrolls_are_forgotten() -> None:
    """As in a run that was resumed with two of its four environments."""
    layout = UnrollLayout(2, 1, frame_shape=(1, 2, 3), action_sizes=(2,))
    newest = NewestStates(layout)

    def play(environments: list[int], rounds: int) -> None:
        for environment in environments * rounds:
            row = np.zeros(layout.nbytes, np.uint8)
            layout.array(row, "environment_id")[...] = environment
            newest.observe(row)

    play([0, 1, 2, 3], rounds=30)
    assert len(newest.states().stacks) == 4
    newest = restored(newest, layout)
    play([0, 2], rounds=3)
    assert len(newest.states().stacks) == 4, "a worker that is slow is not forgotten"
    play([0, 2], rounds=30)
    assert newest.state_dict()["environments"] == [0, 2]
