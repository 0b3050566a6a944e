"""Vectors in small types: what was written is read again, bit for bit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from replay.newest_states import NewestStates
from replay.row_layout import Rows
from replay.stored_vectors import VectorPart
from replay.unroll_layout import UnrollLayout

STEPS, UNROLLS = 3, 2
PARTS = st.lists(
    st.builds(VectorPart, st.sampled_from(["float32", "uint8", "int8", "int16", "choice"]), st.integers(1, 5)),
    min_size=1,
    max_size=8,
).map(tuple)
EXAMPLE = (VectorPart("float32", 2), VectorPart("uint8", 3), VectorPart("choice", 300), VectorPart("int16", 1))


def layout_of(parts: tuple[VectorPart, ...]) -> UnrollLayout:
    """A layout with these parts; () stores all numbers of EXAMPLE as float32."""
    size = sum(part.size for part in parts or EXAMPLE)
    return UnrollLayout(STEPS, 0, (0, 0, 0), 2, vector_size=size, vector_parts=parts)


def random_vectors(parts: tuple[VectorPart, ...], seed: int) -> NDArray[np.float32]:
    """Vectors `[UNROLLS, STEPS + 1, D]`; the limits of each type are among the numbers."""
    rng, shape, found = np.random.default_rng(seed), (UNROLLS, STEPS + 1), []
    for stored, size in parts:
        if stored == "float32":
            found.append(rng.normal(0, 1e6, (*shape, size)))
        elif stored == "choice":
            found.append(np.eye(size)[rng.integers(size, size=shape)])
        else:
            limits = np.iinfo(stored)
            numbers = rng.integers(limits.min, limits.max, (*shape, size), endpoint=True)
            found.append(np.where(rng.random(numbers.shape) < 0.3, rng.choice([limits.min, limits.max]), numbers))
    return np.concatenate(found, -1).astype(np.float32)


def written(layout: UnrollLayout, vectors: NDArray[np.float32]) -> Rows:
    """As workers write them: the first state of all unrolls at once, the other states one by one."""
    rows = np.full((UNROLLS, layout.nbytes), 255, np.uint8)
    unrolls: dict[str, NDArray[Any]] = layout.arrays(rows)
    unrolls["dones"][:] = 0
    unrolls["environment_id"][:] = np.arange(UNROLLS)
    layout.stored_vectors.write(unrolls, (slice(None), 0), vectors[:, 0])
    for e in range(UNROLLS):
        for t in range(STEPS):
            layout.stored_vectors.write(unrolls, (e, t + 1), vectors[e, t + 1])
    return rows


@given(PARTS, st.integers(0, 100))
def test_vectors_are_read_as_they_were_written(parts: tuple[VectorPart, ...], seed: int) -> None:
    layout, vectors = layout_of(parts), random_vectors(parts, seed)
    rows = written(layout, vectors)
    fields = layout.tensors(torch.from_numpy(rows))
    read = layout.stored_vectors.read(fields)
    assert read.dtype == torch.float32
    np.testing.assert_array_equal(read.numpy(), vectors)
    some = [2, 0]
    np.testing.assert_array_equal(layout.stored_vectors.read(fields, some).numpy(), vectors[:, some])
    newest = NewestStates(layout)
    for row in rows:
        newest.observe(row)
    rows[:] = 0  # the memory of a row is reused
    np.testing.assert_array_equal(newest.states().vectors, vectors[:, -1])


def test_numbers_of_one_type_share_a_field_and_a_choice_is_an_index() -> None:
    fields = {field.name: (field.shape, field.dtype) for field in layout_of((*EXAMPLE, *EXAMPLE)).fields}
    assert {name: found for name, found in fields.items() if name.startswith("vectors")} == {
        "vectors": ((STEPS + 1, 4), "float32"),
        "vectors_uint8": ((STEPS + 1, 6), "uint8"),
        "vectors_int16": ((STEPS + 1, 2), "int16"),
        "vectors_choice": ((STEPS + 1, 2), "int16"),
    }
    few = layout_of((VectorPart("choice", 256), VectorPart("choice", 2)))
    assert few.field("vectors_choice").dtype == "uint8"


def test_numbers_in_float32_have_the_layout_of_earlier_versions() -> None:
    """Their saved replays can be loaded."""
    size = sum(part.size for part in EXAMPLE)
    float32 = layout_of((VectorPart("float32", size),))
    assert float32.fingerprint == layout_of(()).fingerprint
    assert [field.name for field in float32.fields if field.name.startswith("vectors")] == ["vectors"]
    assert float32.fingerprint != layout_of(EXAMPLE).fingerprint


def test_parts_must_be_the_whole_vector() -> None:
    with pytest.raises(ValueError, match="306 numbers together"):
        _ = replace(layout_of(EXAMPLE), vector_parts=EXAMPLE[1:]).fields
