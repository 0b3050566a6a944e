"""Saved vectors that no run writes are refused, in a phrase that names their place."""

from typing import Any

import numpy as np
import pytest

from agents.spaces import described_spaces, saved_layout
from option_flags import Config
from replay.stored_vectors import VectorPart
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint_content import check_checkpoint
from run_files.unroll_content import check_rows
from run_files.value_rules import ContentError
from tests.run_files.some_checkpoint import some_content

PARTS = (VectorPart("float32", 2), VectorPart("uint8", 1), VectorPart("choice", 3), VectorPart("choice", 2))
LAYOUT = UnrollLayout(20, 0, (0, 0, 0), 6, vector_size=8, one_hot_size=5, vector_parts=PARTS)
CHOICES_ONLY = UnrollLayout(20, 0, (0, 0, 0), 6, vector_size=3, one_hot_size=3, vector_parts=PARTS[2:3])


def content_of(layout: UnrollLayout, **spaces: Any) -> dict[str, Any]:
    return {"format_version": 3, **some_content(spaces={**described_spaces(layout), **spaces})}


@pytest.mark.parametrize("layout", [LAYOUT, CHOICES_ONLY])
def test_indices_of_choices_that_do_not_exist_are_refused(layout: UnrollLayout) -> None:
    rows = np.zeros((2, layout.nbytes), np.uint8)
    check_rows(rows, layout, "rows")
    largest = layout.stored_vectors.choice_sizes - 1
    layout.array(rows, "vectors_choice")[:] = largest
    check_rows(rows, layout, "rows")
    layout.array(rows, "vectors_choice")[1, 7, -1] += 1
    with pytest.raises(ContentError, match="rows: the vectors_choice of all unrolls must be one of the choices"):
        check_rows(rows, layout, "rows")


def test_numbers_that_are_nan_are_refused() -> None:
    rows = np.zeros((2, LAYOUT.nbytes), np.uint8)
    LAYOUT.array(rows, "vectors")[1, 20, 1] = np.nan
    with pytest.raises(ContentError, match="rows: the vectors of all unrolls must be finite"):
        check_rows(rows, LAYOUT, "rows")


@pytest.mark.parametrize(
    ("parts", "phrase"),
    [
        ([["float32", 3], ["choice", 4]], "vector_parts: their numbers must be a whole number between 8 and 8, not 7"),
        ([["float64", 8]], r"vector_parts\[0\]\[0\] must be one of float32, uint8, int8, int16, choice, not .float64"),
        ([["float32", 0], ["choice", 8]], r"vector_parts\[0\]\[1\] must be a whole number between 1"),
        ([["float32", 4, 2]], r"vector_parts\[0\] must be a list of 2"),
    ],
)
def test_parts_that_are_no_vector_are_refused(parts: list[Any], phrase: str) -> None:
    check_checkpoint(content_of(LAYOUT))
    with pytest.raises(ContentError, match=phrase):
        check_checkpoint(content_of(LAYOUT, vector_parts=parts))


def test_the_saved_layout_is_that_of_the_run() -> None:
    """And that of a version that stored float32 alone if the checkpoint is of that version."""
    content = content_of(LAYOUT)
    assert saved_layout(content, Config()).fingerprint == LAYOUT.fingerprint
    del content["spaces"]["vector_parts"]
    older = saved_layout(content, Config())
    assert older.vector_size == 8 and older.field("vectors").shape == (21, 8)
