"""What the learner knows of each node: its counters only grow, whatever happens to it and to the gateway."""

from cluster.node_statistics import NodeStatistics
from tests.cluster.rounds import LAYOUT, figures
from tests.workers.pools import Clock


def test_the_counters_of_a_node_that_comes_back_go_on() -> None:
    clock = Clock()
    nodes = NodeStatistics(LAYOUT.unroll_length, clock)
    nodes.joined("a", workers=2, capacity=4)
    nodes.update([figures(received_bytes=6000, restarts=3)])
    nodes.left("a")
    (gone,) = nodes.figures()
    assert not gone["alive"] and nodes.capacity == 0
    clock.now += 2
    nodes.joined("a", workers=2, capacity=4)
    nodes.update([figures(received_bytes=500, restarts=1)])
    (here,) = nodes.figures()
    assert (here["alive"], here["restarts"], here["received_bytes_per_second"]) == (True, 4, 6500 / 2)


def test_nobody_plays_after_the_gateway_has_ended() -> None:
    nodes = NodeStatistics(LAYOUT.unroll_length)
    nodes.joined("a", workers=2, capacity=4)
    nodes.joined("b", workers=1, capacity=2)
    assert nodes.capacity == 6
    nodes.all_left()
    assert nodes.capacity == 0 and not any(node["alive"] for node in nodes.figures())


def test_speed_and_lag_are_means_of_the_latest_seconds() -> None:
    clock = Clock()
    nodes = NodeStatistics(LAYOUT.unroll_length, clock)
    nodes.joined("a", workers=2, capacity=4)
    node = nodes.get("a")
    assert node is not None
    for lag in (100, *[2] * 15):  # the first one is too long ago
        node.accept(lag)
        clock.now += 1
        nodes.tick()
    (said,) = nodes.figures()
    assert (said["steps_per_second"], said["policy_lag"]) == (LAYOUT.unroll_length, 2)
    assert said["agent_steps"] == 16 * LAYOUT.unroll_length


def test_of_nodes_that_have_left_the_latest_20_are_shown() -> None:
    nodes = NodeStatistics(LAYOUT.unroll_length)
    for number in range(25):
        nodes.joined(str(number), workers=2, capacity=4)
        if number not in (3, 24):  # which stay
            nodes.left(str(number))
    nodes.update([figures("0", restarts=1)])  # late, of one that is forgotten
    shown = nodes.figures()
    assert [each["node"] for each in shown if not each["alive"]] == [str(number) for number in range(4, 24)]
    assert [each["node"] for each in shown if each["alive"]] == ["3", "24"]
