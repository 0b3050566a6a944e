"""Unrolls that wait for a slot, and those that are dropped."""

import numpy as np
import pytest

from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from workers.realtime.worker import Delivery

LAYOUT = UnrollLayout(2, 1, (1, 1, 1), 2, delayed_actions=True, real_time=True)
GAMES = 2


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, [(1, 0), (2, 0), (5, 2), (6, 0)]),  # number of the round, and rounds that were dropped before it
        (2, [(1, 0), (2, 0), (4, 1), (5, 0)]),
        (9, [(1, 0), (2, 0), (3, 0), (4, 0)]),
    ],
)
def test_the_newest_rounds_wait(most: int, expected: list[tuple[int, int]]) -> None:
    slots: Rows = np.zeros((2, GAMES, LAYOUT.nbytes), np.uint8)
    delivery = Delivery(slots, LAYOUT, most)
    numbers = iter(range(1, 9))

    def complete() -> None:
        rows = np.zeros((GAMES, LAYOUT.nbytes), np.uint8)
        LAYOUT.array(rows, "weight_version")[:] = next(numbers)
        delivery.add(rows)

    def delivered() -> list[tuple[int, int]]:
        found = []
        for slot in delivery.filled():
            rows = slots[slot]
            dropped = LAYOUT.array(rows, "dropped_unrolls")
            assert (dropped == dropped[0]).all()
            found.append((int(LAYOUT.array(rows, "weight_version")[0]), int(dropped[0])))
        return found

    delivery.slot_free(0)
    complete()
    assert delivered() == expected[:1]
    complete()
    assert delivered() == []
    delivery.slot_free(1)
    assert delivered() == expected[1:2]
    for _ in range(3):
        complete()
        assert delivered() == []
    delivery.slot_free(0)
    complete()
    delivery.slot_free(1)
    assert delivered() == expected[2:]
