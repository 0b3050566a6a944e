import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from options.learning_options import BatchUses
from replay.queue import CircularQueue
from tests.replay.numbered_rows import NBYTES, draw, drawn, row, through_a_file


def ring(capacity: int, share: int, slots: int, uses: int) -> CircularQueue:
    return CircularQueue(capacity, share, NBYTES, uses, BatchUses(slots, uses).first_uses)


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
    queue, added, draws = ring(capacity, share, slots, uses), 0, list[list[int]]()
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
    plan = BatchUses(slots, uses)
    for number, begin in enumerate(shares):
        places = [index for index, other in enumerate(begins) if other == begin]
        assert places == list(range(places[0], places[-1] + 1, slots)), "uses are one round apart"
        most = plan.first_uses[number] if number < slots else uses
        used_up = places[-1] + slots < len(begins)
        assert len(places) == most if used_up else len(places) <= most


def test_a_draw_waits_only_where_a_new_share_is_due() -> None:
    queue = ring(capacity=1, share=2, slots=2, uses=2)  # the first share is used once, the second one twice
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


@settings(deadline=None, max_examples=40)
@given(share=st.integers(1, 3), slots=st.integers(1, 4), uses=st.integers(1, 4), before=st.integers(0, 20))
def test_a_loaded_ring_continues_like_the_saved_one(share: int, slots: int, uses: int, before: int) -> None:
    saved, loaded, number = ring(4, share, slots, uses), ring(4, share, slots, uses), 0
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


def test_a_ring_is_fresh() -> None:
    queue = ring(3, 2, 2, 2)
    assert (queue.is_fresh, queue.name, queue.capacity, queue.share, len(queue)) == (True, "queue", 3, 2, 0)
