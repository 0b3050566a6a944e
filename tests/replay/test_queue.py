import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.queue import QueueReplay
from tests.replay.numbered_rows import NBYTES, drawn, row, through_a_file


def queue_with(capacity: int, share: int, count: int) -> QueueReplay:
    queue = QueueReplay(capacity, share, NBYTES)
    for number in range(count):
        queue.add(row(number))
    return queue


@settings(deadline=None)
@given(capacity=st.integers(1, 9), share=st.integers(1, 6), drains=st.lists(st.integers(0, 12), max_size=15))
def test_each_unroll_is_drawn_once_in_order_of_arrival(capacity: int, share: int, drains: list[int]) -> None:
    """Random numbers of unrolls arrive; a draw follows whenever there are enough."""
    queue = QueueReplay(capacity, share, NBYTES)
    assert queue.capacity == max(capacity, share)
    added, left = 0, list[int]()
    for drain in drains:
        for _ in range(min(drain, queue.capacity - len(queue))):
            queue.add(row(added))
            added += 1
        assert len(queue) == added - len(left) <= queue.capacity
        assert queue.unrolls_needed() == max(0, share - len(queue))
        if not queue.unrolls_needed():
            left += drawn(queue)
    while not queue.unrolls_needed():
        left += drawn(queue)
    assert left == list(range(added - len(queue)))
    assert len(queue) < share


def test_a_queue_collects_its_share_even_if_its_capacity_is_smaller() -> None:
    queue = QueueReplay(1, 5, NBYTES)
    for number in range(10):
        assert queue.unrolls_needed() == 5 - number % 5
        queue.add(row(number))
        if number % 5 == 4:
            assert drawn(queue) == list(range(number - 4, number + 1))
    assert len(queue) == 0


def test_a_full_queue_refuses_another_unroll() -> None:
    queue = queue_with(capacity=3, share=1, count=3)
    with pytest.raises(RuntimeError, match="full queue"):
        queue.add(row(3))
    assert [drawn(queue) for _ in range(3)] == [[0], [1], [2]]


def test_a_queue_with_too_few_unrolls_refuses_a_draw() -> None:
    queue = queue_with(capacity=4, share=3, count=2)
    with pytest.raises(RuntimeError, match="fewer than its share"):
        drawn(queue)
    queue.add(row(2))
    assert drawn(queue) == [0, 1, 2]


@settings(deadline=None, max_examples=40)
@given(capacity=st.integers(1, 7), share=st.integers(1, 4), rounds=st.integers(0, 5), extra=st.integers(0, 3))
def test_a_loaded_queue_continues_like_the_saved_one(capacity: int, share: int, rounds: int, extra: int) -> None:
    saved = QueueReplay(capacity, share, NBYTES)
    for start in range(0, rounds * share, share):
        for number in range(start, start + share):
            saved.add(row(number))
        drawn(saved)
    for number in range(rounds * share, rounds * share + min(extra, saved.capacity)):
        saved.add(row(number))
    loaded = queue_with(capacity, share, 1)
    loaded.load_state_dict(through_a_file(saved.state_dict()))
    assert len(loaded) == len(saved)
    number = 100
    for _ in range(3):
        while saved.unrolls_needed():
            saved.add(row(number))
            loaded.add(row(number))
            number += 1
        assert drawn(loaded) == drawn(saved)


def test_a_queue_is_fresh() -> None:
    assert (queue_with(2, 1, 0).is_fresh, queue_with(2, 1, 0).name) == (True, "queue")
