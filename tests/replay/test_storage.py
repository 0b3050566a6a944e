"""Both storages behave alike."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.storage import RawStorage, Storage
from tests.replay.any_replay import STORAGES, MakeStorage
from tests.replay.numbered_rows import NBYTES, numbers, row, through_a_file, through_a_tensor_file

every_storage = pytest.mark.parametrize("make", STORAGES)


def filled(make: MakeStorage, capacity: int, puts: int) -> Storage:
    """A storage filled as a ring."""
    storage = make(capacity)
    for number in range(puts):
        storage.put(number % capacity, row(number))
    return storage


def content(storage: Storage, count: int) -> list[int]:
    out = np.zeros((count, NBYTES), np.uint8)
    storage.copy_to(np.arange(count), out)
    return numbers(out)


def newest(capacity: int, puts: int) -> list[int]:
    """The numbers in a ring, by index."""
    return sorted(range(max(0, puts - capacity), puts), key=lambda number: number % capacity)


@every_storage
@settings(deadline=None)
@given(data=st.data())
def test_each_index_holds_the_last_row_put_there(make: MakeStorage, data: st.DataObject) -> None:
    capacity = data.draw(st.integers(1, 6))
    storage = make(capacity)
    assert storage.capacity == capacity
    held: list[int] = []
    for number in range(data.draw(st.integers(1, 20))):
        # New indices are used in order; an index in use may be replaced at any time.
        index = data.draw(st.integers(0, min(len(held), capacity - 1)))
        storage.put(index, row(number))
        held[index : index + 1] = [number]
    indices = data.draw(st.lists(st.integers(0, len(held) - 1), max_size=8))
    out = np.zeros((len(indices), NBYTES), np.uint8)
    storage.copy_to(np.array(indices, np.int64), out)
    assert numbers(out) == [held[index] for index in indices]


@every_storage
def test_rows_are_copied_in_the_given_order_to_the_target_only(make: MakeStorage) -> None:
    storage = filled(make, 4, 4)
    out = np.full((5, NBYTES), 0xAA, np.uint8)
    storage.copy_to(np.array([3, 0, 3]), out[1:4])
    assert numbers(out[1:4]) == [3, 0, 3]
    assert (out[[0, 4]] == 0xAA).all()


@every_storage
def test_rows_are_copied_in_and_out(make: MakeStorage) -> None:
    storage = make(2)
    given_row = row(7)
    storage.put(0, given_row)
    given_row[:] = 0
    assert content(storage, 1) == [7]
    out = np.zeros((1, NBYTES), np.uint8)
    storage.copy_to(np.array([0]), out)
    out[:] = 0
    assert content(storage, 1) == [7]


@every_storage
def test_fewer_indices_than_target_rows_are_an_error(make: MakeStorage) -> None:
    with pytest.raises(ValueError):
        filled(make, 3, 3).copy_to(np.array([0]), np.zeros((2, NBYTES), np.uint8))


@every_storage
@settings(deadline=None, max_examples=40)
@given(capacity=st.integers(1, 5), before=st.integers(0, 7), puts=st.integers(0, 12), more=st.integers(0, 12))
def test_a_loaded_storage_continues_like_the_saved_one(
    make: MakeStorage, capacity: int, before: int, puts: int, more: int
) -> None:
    """The loaded storage held other rows before."""
    saved, loaded = filled(make, capacity, puts), filled(make, capacity, before)
    loaded.load_state_dict(through_a_file(saved.state_dict()))
    assert content(loaded, min(capacity, puts)) == newest(capacity, puts)
    for number in range(puts, puts + more):
        saved.put(number % capacity, row(number))
        loaded.put(number % capacity, row(number))
    # Saved again, it holds the same rows, and none from before the first load.
    again = make(capacity)
    again.load_state_dict(through_a_file(loaded.state_dict()))
    for storage in (saved, loaded, again):
        assert content(storage, min(capacity, puts + more)) == newest(capacity, puts + more)


@every_storage
@pytest.mark.parametrize("puts", [0, 2, 8])
def test_a_storage_is_saved_in_the_replay_file(make: MakeStorage, tmp_path: Path, puts: int) -> None:
    loaded = make(3)
    loaded.load_state_dict(through_a_tensor_file(filled(make, 3, puts).state_dict(), tmp_path / "replays.bin"))
    assert content(loaded, min(3, puts)) == newest(3, puts)


@every_storage
def test_a_loaded_storage_shares_no_memory_with_the_saved_one(make: MakeStorage) -> None:
    saved, loaded = filled(make, 3, 2), make(3)
    loaded.load_state_dict(saved.state_dict())
    saved.put(0, row(9))
    saved.put(1, row(9))
    assert content(loaded, 2) == [0, 1]


def test_the_state_of_raw_rows_is_a_view_of_the_rows_in_use() -> None:
    """A copy could exceed the memory."""
    saved = RawStorage(3, NBYTES)
    saved.put(0, row(0))
    saved.put(1, row(1))
    rows = saved.state_dict()["rows"].numpy()
    assert len(rows) == 2
    saved.put(1, row(2))
    assert numbers(rows) == [0, 2]
