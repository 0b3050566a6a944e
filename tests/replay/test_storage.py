import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.storage import RingStorage
from tests.replay.numbered_rows import NBYTES, numbers, row, through_a_file


def filled(capacity: int, added: int) -> RingStorage:
    storage = RingStorage(capacity, NBYTES)
    for number in range(added):
        storage.add(row(number))
    return storage


def content(storage: RingStorage) -> list[int]:
    out = np.zeros((len(storage), NBYTES), np.uint8)
    storage.copy_to(np.arange(len(storage)), out)
    return numbers(out)


@settings(deadline=None)
@given(capacity=st.integers(1, 6), added=st.integers(0, 20))
def test_row_n_stands_at_n_modulo_capacity_and_the_oldest_make_room(capacity: int, added: int) -> None:
    storage = filled(capacity, added)
    kept = range(max(0, added - capacity), added)
    assert (storage.added, storage.capacity, len(storage)) == (added, capacity, len(kept))
    assert content(storage) == sorted(kept, key=lambda number: number % capacity)


def test_rows_are_copied_out_in_the_order_asked_for_and_none_but_the_target_is_written() -> None:
    storage = filled(4, 4)
    out = np.full((5, NBYTES), 0xAA, np.uint8)
    storage.copy_to(np.array([3, 0, 3]), out[1:4])
    assert numbers(out[1:4]) == [3, 0, 3]
    assert (out[[0, 4]] == 0xAA).all()


def test_the_storage_keeps_and_gives_copies() -> None:
    storage = RingStorage(2, NBYTES)
    given_row = row(7)
    storage.add(given_row)
    given_row[:] = 0
    assert content(storage) == [7]
    out = np.zeros((1, NBYTES), np.uint8)
    storage.copy_to(np.array([0]), out)
    out[:] = 0
    assert content(storage) == [7]


def test_fewer_indices_than_places_are_an_error() -> None:
    with pytest.raises(ValueError):
        filled(3, 3).copy_to(np.array([0]), np.zeros((2, NBYTES), np.uint8))


@settings(deadline=None, max_examples=40)
@given(capacity=st.integers(1, 5), added=st.integers(0, 12), more=st.integers(0, 12))
def test_a_loaded_ring_goes_on_like_the_saved_one(capacity: int, added: int, more: int) -> None:
    saved = filled(capacity, added)
    loaded = filled(capacity, 1)
    loaded.load_state_dict(through_a_file(saved.state_dict()))
    for number in range(added, added + more):
        saved.add(row(number))
        loaded.add(row(number))
    assert content(loaded) == content(saved)
    assert loaded.added == saved.added


def test_saving_copies_no_rows_and_loading_keeps_none_of_the_saved_memory() -> None:
    saved = filled(3, 2)
    state = saved.state_dict()
    assert np.shares_memory(state["rows"].numpy(), saved._rows)
    assert len(state["rows"]) == 2
    loaded = RingStorage(3, NBYTES)
    loaded.load_state_dict(state)
    saved._rows[:] = 0
    assert content(loaded) == [0, 1]


@pytest.mark.parametrize(("capacity", "nbytes"), [(2, NBYTES), (4, NBYTES), (3, NBYTES + 8)])
def test_rows_that_do_not_fit_are_refused_and_change_nothing(capacity: int, nbytes: int) -> None:
    storage = RingStorage(capacity, nbytes)
    with pytest.raises(ValueError, match="do not fit"):
        storage.load_state_dict(filled(3, 7).state_dict())
    assert storage.added == 0
