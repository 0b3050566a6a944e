import pytest
from hypothesis import given
from hypothesis import strategies as st

from options.learning_options import ONCE, BatchUses


def replacing_updates(slots: int, uses: int, first_uses: tuple[int, ...], updates: int) -> list[int]:
    """The updates that take a new batch, found by playing them one after another."""
    left, found = [0] * slots, []
    for update in range(updates):
        place = update % slots
        if not left[place]:
            left[place] = first_uses[place] if update < slots else uses
            found.append(update)
        left[place] -= 1
    return found


@given(slots=st.integers(1, 9), uses=st.integers(1, 12))
def test_the_updates_of_each_number_of_batches_are_those_of_the_buffer(slots: int, uses: int) -> None:
    """With n batches, the next update that can not be made is the one that takes batch n + 1."""
    plan = BatchUses(slots, uses)
    found = replacing_updates(slots, uses, plan.first_uses, 5 * slots * uses)
    assert [plan.updates_of(batches) for batches in range(len(found))] == found


@given(slots=st.integers(1, 9), uses=st.integers(1, 12), updates=st.integers(0, 200))
def test_batches_for_updates_are_the_smallest_number_that_is_enough(slots: int, uses: int, updates: int) -> None:
    plan = BatchUses(slots, uses)
    batches = plan.batches_for(updates)
    assert plan.updates_of(batches) >= updates
    assert batches == 0 or plan.updates_of(batches - 1) < updates


@pytest.mark.parametrize(("slots", "uses"), [(4, 2), (4, 20), (16, 2), (3, 7), (1, 5), (8, 8)])
def test_new_batches_are_needed_at_a_steady_rate(slots: int, uses: int) -> None:
    """In any stretch of two rounds, the number of new batches is near its mean."""
    plan = BatchUses(slots, uses)
    found = replacing_updates(slots, uses, plan.first_uses, 20 * slots * uses)
    for start in range(slots * uses, 15 * slots * uses):
        new = sum(start <= update < start + 2 * slots for update in found)
        assert new <= 2 * slots / uses + max(2, slots // uses)
    assert len(found) / (20 * slots * uses) == pytest.approx(1 / uses, rel=0.1)


def test_without_further_uses_each_batch_makes_one_update() -> None:
    assert [ONCE.updates_of(batches) for batches in range(5)] == [0, 1, 2, 3, 4]
    assert [BatchUses(4, 1).updates_of(batches) for batches in range(9)] == list(range(9))
