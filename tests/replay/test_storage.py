import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.tensor_file import read_tensor_file, write_tensor_file
from replay.compression import UnrollCodec
from replay.storage import BLOB_OVERHEAD, CompressedStorage, RawStorage, Storage
from replay.trajectory import Rows
from tests.replay.numbered_rows import NBYTES, SPEC, numbers, row, through_a_file

Make = Callable[[int], Storage]
MAKERS: dict[str, Make] = {
    "raw": lambda capacity: RawStorage(capacity, NBYTES),
    "compressed": lambda capacity: CompressedStorage(capacity, UnrollCodec(SPEC, 0)),
}
both = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def filled(make: Make, capacity: int, count: int) -> Storage:
    storage = make(capacity)
    for number in range(count):
        storage.put(number, row(number))
    return storage


def content(storage: Storage, count: int) -> list[int]:
    out = np.full((count, NBYTES), 0xAA, np.uint8)
    storage.copy_to(np.arange(count), out)
    return numbers(out)


@both
@settings(deadline=None)
@given(capacity=st.integers(1, 6), data=st.data())
def test_a_place_holds_what_was_put_there_last(make: Make, capacity: int, data: st.DataObject) -> None:
    storage, expected = make(capacity), dict[int, int]()
    for number in range(data.draw(st.integers(0, 20))):
        index = len(expected) if len(expected) < capacity and data.draw(st.booleans()) else None
        if index is None:
            if not expected:
                continue
            index = data.draw(st.sampled_from(sorted(expected)))
        storage.put(index, row(number))
        expected[index] = number
    assert storage.capacity == capacity
    assert content(storage, len(expected)) == [expected[index] for index in sorted(expected)]


@both
def test_rows_are_copied_out_in_the_order_asked_for_and_none_but_the_target_is_written(make: Make) -> None:
    storage = filled(make, 4, 4)
    out = np.full((5, NBYTES), 0xAA, np.uint8)
    storage.copy_to(np.array([3, 0, 3]), out[1:4])
    assert numbers(out[1:4]) == [3, 0, 3]
    assert (out[[0, 4]] == 0xAA).all()


@both
def test_the_storage_keeps_and_gives_copies(make: Make) -> None:
    storage = make(2)
    given_row = row(7)
    storage.put(0, given_row)
    given_row[:] = 0
    assert content(storage, 1) == [7]
    out = np.zeros((1, NBYTES), np.uint8)
    storage.copy_to(np.array([0]), out)
    out[:] = 0
    assert content(storage, 1) == [7]


@both
def test_fewer_indices_than_places_are_an_error(make: Make) -> None:
    with pytest.raises(ValueError):
        filled(make, 3, 3).copy_to(np.array([0]), np.zeros((2, NBYTES), np.uint8))


@both
def test_there_is_no_place_behind_the_last(make: Make) -> None:
    storage = filled(make, 2, 2)
    with pytest.raises(IndexError):
        storage.put(2, row(2))
    assert content(storage, 2) == [0, 1]


def test_raw_rows_take_their_size() -> None:
    assert [filled(MAKERS["raw"], 5, count).bytes_held for count in (0, 3)] == [0, 3 * NBYTES]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 200)), max_size=12))
def test_compressed_rows_take_their_bytes_and_what_python_adds(puts: list[tuple[int, int]]) -> None:
    codec = UnrollCodec(SPEC, 0)
    storage, rng, expected = CompressedStorage(4, codec), np.random.default_rng(0), dict[int, bytes]()
    for index, noise in puts:
        noisy: Rows = np.zeros(NBYTES, np.uint8)
        noisy[:noise] = rng.integers(0, 256, noise)
        place = min(index, len(expected))
        storage.put(place, noisy)
        expected[place] = codec.encode(noisy)
        assert storage.bytes_held == sum(len(blob) + BLOB_OVERHEAD for blob in expected.values())
        assert all(sys.getsizeof(blob) - len(blob) + 8 < BLOB_OVERHEAD for blob in expected.values())
    loaded = CompressedStorage(4, codec)
    loaded.load_state_dict(storage.state_dict())
    assert loaded.bytes_held == storage.bytes_held


@both
@settings(deadline=None, max_examples=30)
@given(capacity=st.integers(1, 5), held=st.integers(0, 5), more=st.integers(0, 7))
def test_a_loaded_storage_goes_on_like_the_saved_one(make: Make, capacity: int, held: int, more: int) -> None:
    held = min(held, capacity)
    saved, loaded = filled(make, capacity, held), filled(make, capacity, 1)
    loaded.load_state_dict(through_a_file(saved.state_dict()))
    for number in range(held, held + more):
        for storage in (saved, loaded):
            storage.put(number % capacity, row(number))
    count = min(held + more, capacity)
    assert content(loaded, count) == content(saved, count)
    assert loaded.bytes_held == saved.bytes_held


@both
def test_a_storage_comes_back_from_a_file(make: Make, tmp_path: Path) -> None:
    saved, loaded = filled(make, 5, 4), make(5)
    write_tensor_file(tmp_path / "file", saved.state_dict())
    loaded.load_state_dict(read_tensor_file(tmp_path / "file"))
    (tmp_path / "file").unlink()
    assert content(loaded, 4) == [0, 1, 2, 3]


def test_saving_copies_no_rows_and_loading_keeps_none_of_the_saved_memory() -> None:
    saved, loaded = RawStorage(3, NBYTES), RawStorage(3, NBYTES)
    for number in range(2):
        saved.put(number, row(number))
    state = saved.state_dict()
    assert np.shares_memory(state["rows"].numpy(), saved._rows)
    assert len(state["rows"]) == 2
    loaded.load_state_dict(state)
    saved._rows[:] = 0
    assert content(loaded, 2) == [0, 1]


@both
@pytest.mark.parametrize("capacity", [2, 4])
def test_rows_of_another_capacity_are_refused_and_change_nothing(make: Make, capacity: int) -> None:
    storage = filled(make, capacity, 1)
    with pytest.raises(ValueError, match="do not fit"):
        storage.load_state_dict(filled(make, 3, 3).state_dict())
    assert content(storage, 1) == [0]


@pytest.mark.parametrize(
    "state", [{"rows": torch.zeros(2, NBYTES + 8, dtype=torch.uint8)}, {"rows": torch.zeros(4, NBYTES)}]
)
def test_raw_rows_of_another_size_or_number_are_refused(state: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        RawStorage(3, NBYTES).load_state_dict({"capacity": 3, **state})


def test_more_blobs_than_places_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        MAKERS["compressed"](3).load_state_dict({"capacity": 3, "blobs": [b""] * 4})
