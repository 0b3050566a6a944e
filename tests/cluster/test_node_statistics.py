"""What the learner knows of each node: its counters only grow, whatever happens to it and to the gateway."""

from cluster.node_statistics import NodeStatistics
from tests.cluster.rounds import LAYOUT, described
from tests.workers.pools import Clock


def test_the_counters_of_a_node_that_comes_back_go_on() -> None:
    clock = Clock()
    node_statistics = NodeStatistics(LAYOUT.unroll_length, clock)
    node_statistics.joined(described(number=0, link=0))
    node_statistics.update([described(number=0, link=0, received_bytes=5000, restarts=3)])
    node_statistics.left(described(number=0, link=0, received_bytes=6000, restarts=3))
    clock.now += 2
    node_statistics.joined(described(number=1, link=1, received_bytes=0))
    node_statistics.update([described(number=1, link=1, received_bytes=500, restarts=1)])
    (figures,) = node_statistics.figures()
    assert figures["restarts"] == 4
    assert figures["received_bytes_per_second"] == 6500 / 2


def test_a_player_that_is_started_again_counts_on_in_the_gateway() -> None:
    node_statistics = NodeStatistics(LAYOUT.unroll_length, Clock())
    node_statistics.joined(described(number=0, link=0))
    node_statistics.left(described(number=0, link=0, restarts=1))
    node_statistics.joined(described(number=1, link=0, restarts=2))
    (figures,) = node_statistics.figures()
    assert figures["restarts"] == 2


def test_another_gateway_counts_from_zero() -> None:
    node_statistics = NodeStatistics(LAYOUT.unroll_length, Clock())
    node_statistics.joined(described(number=0, link=0, restarts=2))
    node_statistics.all_left()
    (gone,) = node_statistics.figures()
    assert not gone["alive"] and node_statistics.capacity == 0
    node_statistics.joined(described(number=1 << 32, link=0, restarts=1))
    (figures,) = node_statistics.figures()
    assert figures["alive"] and figures["restarts"] == 3


def test_of_nodes_that_have_left_the_latest_20_are_shown() -> None:
    node_statistics = NodeStatistics(LAYOUT.unroll_length, Clock())
    for number in range(25):
        node = described(number=number, name=str(number), link=number)
        node_statistics.joined(node)
        if number not in (3, 24):  # which stay
            node_statistics.left(node)
    node_statistics.left(described(number=0, name="0", link=0, restarts=1))  # late, of one that is forgotten
    figures = node_statistics.figures()
    assert [each["node"] for each in figures if not each["alive"]] == [str(number) for number in range(4, 24)]
    assert [each["node"] for each in figures if each["alive"]] == ["3", "24"]
