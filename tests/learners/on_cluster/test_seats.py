"""Which nodes get the learners of a run, and with what variables they start."""

import pytest

pytest.importorskip("ray")

from learners.on_cluster.cluster_start import Room, Seat, choose_seats, most_learners, rank_variables
from learners.on_cluster.node_learner import Address

EQUAL = [Room("a", 8, 0), Room("b", 8, 0), Room("c", 8, 0)]


@pytest.mark.parametrize(
    ("learners", "own", "seats"),
    [
        (2, "b", [("b", 8), ("a", 8)]),
        (3, "c", [("c", 8), ("a", 8), ("b", 8)]),
        (4, "a", [("a", 4), ("a", 4), ("b", 8), ("c", 8)]),
        (2, "a head without CPUs", [("a", 8), ("b", 8)]),
    ],
)
def test_learners_are_spread_and_the_first_is_where_the_user_is(
    learners: int, own: str, seats: list[tuple[str, int]]
) -> None:
    assert choose_seats(EQUAL, learners, own, need_gpus=False) == seats


def test_a_large_node_gets_more_learners_than_a_small_one() -> None:
    rooms = [Room("small", 2, 0), Room("large", 32, 0)]
    assert choose_seats(rooms, 2, "elsewhere", need_gpus=False) == [("large", 16), ("large", 16)]
    assert choose_seats(rooms, 2, "small", need_gpus=False) == [("small", 2), ("large", 32)]


def test_each_learner_needs_a_cpu_and_perhaps_a_gpu() -> None:
    rooms = [Room("a", 16, 2), Room("b", 64, 0), Room("c", 1, 4)]
    assert most_learners(rooms, need_gpus=False) == 81
    assert most_learners(rooms, need_gpus=True) == 3
    assert choose_seats(rooms, 3, "b", need_gpus=True) == [("a", 8), ("a", 8), ("c", 1)]


def test_ranks_are_those_of_torchrun() -> None:
    seats = [Seat("a", 8), Seat("a", 8), Seat("c", 1)]
    addresses = [Address("192.0.2.1", 1111, "1"), Address("192.0.2.1", 2222, "3"), Address("192.0.2.2", 3333, "0")]
    found = rank_variables(seats, addresses, have_gpus=True)
    assert [place["RANK"] for place in found] == ["0", "1", "2"]
    assert [place["LOCAL_RANK"] for place in found] == ["0", "1", "0"]
    assert [place["LOCAL_WORLD_SIZE"] for place in found] == ["2", "2", "1"]
    assert {(place["MASTER_ADDR"], place["MASTER_PORT"]) for place in found} == {("192.0.2.1", "1111")}
    assert [place["CUDA_VISIBLE_DEVICES"] for place in found] == ["1,3", "1,3", "0"]
    assert all("CUDA_VISIBLE_DEVICES" not in each for each in rank_variables(seats, addresses, have_gpus=False))
