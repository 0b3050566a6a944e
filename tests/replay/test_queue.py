import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from options.learning_options import BatchUses
from replay.queue import QueueReplay
from tests.replay.numbered_rows import NBYTES, draw, drawn, row, through_a_file


def queue_of(capacity: int, share: int, slots: int = 1, uses: int = 1) -> QueueReplay:
    return QueueReplay(capacity, share, NBYTES, uses, BatchUses(slots, uses).first_uses)


@settings(deadline=None, max_examples=60)
@given(
    capacity=st.integers(1, 5),
    share=st.integers(1, 3),
    slots=st.integers(1, 4),
    uses=st.integers(1, 5),
    arrivals=st.lists(st.integers(0, 6), max_size=40),
)
def test_each_share_is_used_as_often_as_planned(
    capacity: int, share: int, slots: int, uses: int, arrivals: list[int]
) -> None:
    """Unrolls arrive at random; a draw follows whenever it can."""
    queue, added, draws = queue_of(capacity, share, slots, uses), 0, list[list[int]]()
    for arrival in arrivals:
        for _ in range(min(arrival, queue.capacity - len(queue))):
            queue.add(row(added))
            added += 1
        assert queue.capacity > len(queue) or not queue.unrolls_needed(), "a full queue can be drawn from"
        if not queue.unrolls_needed():
            unrolls, figures = draw(queue)
            draws.append(unrolls)
            assert figures.times_drawn == draws.count(unrolls)
    begins = [min(unrolls) for unrolls in draws]
    shares = sorted(set(begins))
    assert shares == list(range(0, share * len(shares), share)), "every unroll is used, in the order of arrival"
    assert all(unrolls == list(range(begin, begin + share)) for unrolls, begin in zip(draws, begins, strict=True))
    assert len(queue) == added - share * len(shares)
    plan = BatchUses(slots, uses)
    for number, begin in enumerate(shares):
        places = [index for index, other in enumerate(begins) if other == begin]
        assert places == list(range(places[0], places[-1] + 1, slots)), "uses are one round apart"
        most = plan.first_uses[number] if number < slots else uses
        used_up = places[-1] + slots < len(begins)
        assert len(places) == most if used_up else len(places) <= most


def test_a_draw_waits_only_where_a_new_share_is_due() -> None:
    queue = queue_of(capacity=1, share=2, slots=2, uses=2)  # the first share is used once, the second one twice
    draws, waited, added = [], [], 0
    for _ in range(6):
        waited.append(queue.unrolls_needed())
        while queue.unrolls_needed():
            queue.add(row(added))
            added += 1
        draws.append(drawn(queue))
    assert draws == [[0, 1], [2, 3], [4, 5], [2, 3], [4, 5], [6, 7]]
    assert waited == [2, 2, 2, 0, 0, 2]
    with pytest.raises(RuntimeError, match="fewer than its share"):
        drawn(queue)


def test_a_queue_collects_its_share_even_if_its_capacity_is_smaller() -> None:
    queue = queue_of(capacity=1, share=5)
    for number in range(10):
        assert queue.unrolls_needed() == 5 - number % 5
        queue.add(row(number))
        if number % 5 == 4:
            assert drawn(queue) == list(range(number - 4, number + 1))
    assert len(queue) == 0


def test_a_full_queue_refuses_another_unroll() -> None:
    queue = queue_of(capacity=3, share=1)
    for number in range(3):
        queue.add(row(number))
    with pytest.raises(RuntimeError, match="full queue"):
        queue.add(row(3))
    assert [drawn(queue) for _ in range(3)] == [[0], [1], [2]]


@settings(deadline=None, max_examples=40)
@given(share=st.integers(1, 3), slots=st.integers(1, 4), uses=st.integers(1, 4), before=st.integers(0, 20))
def test_a_loaded_queue_continues_like_the_saved_one(share: int, slots: int, uses: int, before: int) -> None:
    saved, loaded, number = queue_of(4, share, slots, uses), queue_of(4, share, slots, uses), 0
    loaded.add(row(999))
    for draws in range(before + 3 * slots):
        if draws == before:
            loaded.load_state_dict(through_a_file(saved.state_dict()))
            assert (len(loaded), loaded.unrolls_needed()) == (len(saved), saved.unrolls_needed())
        while saved.unrolls_needed():
            for queue in (saved, loaded) if draws >= before else (saved,):
                queue.add(row(number))
            number += 1
        if draws >= before:
            assert draw(loaded) == draw(saved)
        else:
            drawn(saved)
