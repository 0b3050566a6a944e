"""Distances of unrolls, compared with slow versions that take one state at a time."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agents.network import ActorCritic
from agents.ranking import NetworkRanking, evenly_spaced
from option_flags import NetworkOptions
from options.replay_options import ReplaySpec
from replay.newest_states import States
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from tests.agents.slow_versions import Array, kl, probabilities

STEPS = 7
LAYOUT = UnrollLayout(unroll_length=STEPS, frame_stack=2, frame_shape=(1, 20, 20), action_sizes=(4,), feature_size=6)
DISTANCES: list[dict[str, Any]] = [
    {"dist_function": "ln_norm"},
    {"dist_function": "ln_norm", "p": 1.0},
    {"dist_function": "ln_norm", "p": 3.5},
    {"dist_function": "cos_dist"},
    {"dist_function": "kl_div"},
]
every_distance = pytest.mark.parametrize("distance", DISTANCES, ids=lambda d: "-".join(map(str, d.values())))


def network_of(seed: int = 0, dtype: torch.dtype = torch.float32) -> ActorCritic:
    torch.manual_seed(seed)
    network = ActorCritic(NetworkOptions(network="impala_shallow"), LAYOUT, dtype)
    torch.nn.init.normal_(network.policy_head.weight)
    return network


def unrolls(count: int, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    rows = np.zeros((count, LAYOUT.nbytes), np.uint8)
    fields = LAYOUT.arrays(rows)
    fields["frames"][:] = rng.integers(0, 256, fields["frames"].shape)
    fields["dones"][:] = rng.random(fields["dones"].shape) < 0.3
    fields["features"][:] = rng.normal(size=fields["features"].shape)
    fields["behaviour_logits"][:] = rng.normal(size=fields["behaviour_logits"].shape)
    return rows


def stacks_of(row: Rows) -> list[Rows]:
    """The observations of one unroll, without the last one."""
    fields = LAYOUT.arrays(row)
    frames = [frame[0] for frame in fields["frames"]]
    seen = [frames[0], frames[1]]
    states = []
    for t in range(STEPS):
        states.append(np.stack(seen))
        seen = [frames[t + 2]] * 2 if fields["dones"][t] else [seen[1], frames[t + 2]]
    return states


def seen_alone(network: ActorCritic, state: Rows, by_policy: bool) -> Array:
    """One state embedded by the network: its logits, or its projected features."""
    with torch.no_grad():
        features = network.features(torch.from_numpy(state)[None])
        seen = network.policy_head(features) if by_policy else network.project(features)
    return np.asarray(seen[0].double().numpy())


def slow_distance(distance: dict[str, Any], current: Array, other: Array) -> float:
    """Of two vectors, or of two policies from their logits."""
    if distance["dist_function"] == "kl_div":
        return kl(probabilities(current), probabilities(other))
    if distance["dist_function"] == "cos_dist":
        return 1 - float(current @ other) / float(np.sqrt(current @ current) * np.sqrt(other @ other))
    p = distance.get("p", 2.0)
    return float(sum(abs(float(x - y)) ** p for x, y in zip(current, other, strict=True)) ** (1 / p))


def ranking_of(network: ActorCritic, distance: dict[str, Any], ranked_states: int = STEPS) -> NetworkRanking:
    options = ReplaySpec("elite", 10, 1.0, ranked_states=ranked_states, **distance)
    return NetworkRanking(network, LAYOUT, options)


def slow_drift(network: ActorCritic, distance: dict[str, Any], row: Rows, states: list[int]) -> float:
    by_policy = distance["dist_function"] == "kl_div"
    stored = LAYOUT.array(row, "behaviour_logits" if by_policy else "features").astype(np.float64)
    shown = stacks_of(row)
    distances = [slow_distance(distance, seen_alone(network, shown[t], by_policy), stored[t]) for t in states]
    return sum(distances) / len(distances)


def slow_distance_to_newest(
    network: ActorCritic, distance: dict[str, Any], row: Rows, newest: Rows, states: list[int]
) -> float:
    by_policy = distance["dist_function"] == "kl_div"
    shown = stacks_of(row)
    own = [seen_alone(network, shown[t], by_policy) for t in states]
    means = []
    for state in newest:
        now = seen_alone(network, state, by_policy)
        means.append(sum(slow_distance(distance, now, seen) for seen in own) / len(own))
    return min(means)


def pictures(stacks: NDArray[np.uint8]) -> States:
    """States without vectors, from `[E, S*C, H, W]`."""
    return States(stacks, np.zeros((len(stacks), 0), np.float32))


SUBSETS = [
    (STEPS + 5, list(range(STEPS))),
    (3, [1, 3, 5]),
    (2, [1, 5]),
    (1, [3]),
]  # ranked_states, and the states that are ranked
every_distance_or_subset = pytest.mark.parametrize(
    ("distance", "ranked_states", "states"),
    [
        *((distance, STEPS, list(range(STEPS))) for distance in DISTANCES),
        *((DISTANCES[0], count, states) for count, states in SUBSETS),
    ],
)


@every_distance_or_subset
def test_drift_is_the_mean_distance_from_what_the_acting_policy_stored(
    distance: dict[str, Any], ranked_states: int, states: list[int]
) -> None:
    network, rows = network_of(), unrolls(5)
    drift = ranking_of(network, distance, ranked_states).drift(rows)
    assert drift.shape == (5,) and drift.dtype == np.float64
    expected = [slow_drift(network, distance, row, states) for row in rows]
    np.testing.assert_allclose(drift, expected, rtol=3e-3, atol=1e-5)
    assert np.ptp(drift) > 1e-3


@every_distance_or_subset
def test_distance_to_newest_is_the_mean_distance_from_the_nearest_newest_state(
    distance: dict[str, Any], ranked_states: int, states: list[int]
) -> None:
    network, rows = network_of(), unrolls(5)
    for environments in (1, 4):
        newest = np.random.default_rng(3).integers(0, 256, (environments, 2, 20, 20), dtype=np.uint8)
        distance_to_newest = ranking_of(network, distance, ranked_states).distance_to_newest(rows, pictures(newest))
        assert distance_to_newest.shape == (5,) and distance_to_newest.dtype == np.float64
        expected = [slow_distance_to_newest(network, distance, row, newest, states) for row in rows]
        np.testing.assert_allclose(distance_to_newest, expected, rtol=5e-3, atol=1e-5)
        assert np.ptp(distance_to_newest) > 1e-5


def test_the_nearest_of_many_newest_states_is_found() -> None:
    """With more states than are compared in one group."""
    rows, ranking = unrolls(5), ranking_of(network_of(), DISTANCES[0])
    newest = np.random.default_rng(3).integers(0, 256, (100, 2, 20, 20), dtype=np.uint8)
    first, second = (
        ranking.distance_to_newest(rows, pictures(newest[:50])),
        ranking.distance_to_newest(rows, pictures(newest[50:])),
    )
    assert 0 < (first < second).sum() < 5
    for states in (newest, newest[::-1].copy()):
        np.testing.assert_allclose(
            ranking.distance_to_newest(rows, pictures(states)), np.minimum(first, second), rtol=1e-3, atol=1e-6
        )


@every_distance
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_unrolls_of_the_current_network_have_no_drift(distance: dict[str, Any], dtype: torch.dtype) -> None:
    network, rows = network_of(dtype=dtype), unrolls(4)
    fields = LAYOUT.arrays(rows)
    for u, row in enumerate(rows):
        states = torch.from_numpy(np.stack(stacks_of(row)))
        with torch.no_grad():
            features = network.features(states)
            fields["features"][u] = network.project(features).numpy()
            fields["behaviour_logits"][u] = network.policy_head(features).numpy()
    unchanged = ranking_of(network, distance).drift(rows)
    assert (unchanged <= (2e-2 if dtype == torch.bfloat16 else 4e-3)).all()
    moved = network_of(seed=1)
    moved.projection.copy_(network.projection)
    assert (ranking_of(moved, distance).drift(rows) > 10 * unchanged).all()


@every_distance
def test_an_unroll_of_the_newest_state_only_is_nearest(distance: dict[str, Any]) -> None:
    network, rows = network_of(), unrolls(3)
    frame = np.random.default_rng(5).integers(0, 256, (1, 20, 20), dtype=np.uint8)
    LAYOUT.array(rows, "frames")[1] = frame
    distance_to_newest = ranking_of(network, distance).distance_to_newest(rows, pictures(np.repeat(frame, 2, 0)[None]))
    assert distance_to_newest[1] == pytest.approx(0, abs=4e-3)
    assert distance_to_newest.argmin() == 1


def test_ranking_uses_the_current_weights_and_changes_nothing() -> None:
    network, rows = network_of(), unrolls(3)
    ranking, before = ranking_of(network, DISTANCES[0]), rows.copy()
    first = ranking.drift(rows)
    np.testing.assert_array_equal(ranking.drift(rows), first)
    np.testing.assert_array_equal(rows, before)
    assert all(parameter.grad is None for parameter in network.parameters())
    other = copy.deepcopy(network)
    torch.nn.init.normal_(next(network.torso.parameters()))
    assert (ranking.drift(rows) != first).all()
    np.testing.assert_array_equal(ranking_of(other, DISTANCES[0]).drift(rows), first)


@given(count=st.integers(1, 60), steps=st.integers(1, 60))
def test_evenly_spaced_states_lie_in_the_middles_of_equal_parts(count: int, steps: int) -> None:
    states = evenly_spaced(count, steps)
    taken = min(count, steps)
    assert len(set(states)) == len(states) == taken
    for i, state in enumerate(states):
        middle = (i + 0.5) * steps / taken
        assert i * steps / taken <= state + 0.5 <= (i + 1) * steps / taken or taken == steps
        assert state <= middle < state + 1


@pytest.mark.parametrize("distance", [DISTANCES[0], DISTANCES[-1]])
def test_padding_for_the_device_changes_nothing(monkeypatch: pytest.MonkeyPatch, distance: dict[str, Any]) -> None:
    network, rows = network_of(), unrolls(5)
    newest = np.random.default_rng(3).integers(0, 256, (2, 2, 20, 20), dtype=np.uint8)
    ranking = ranking_of(network, distance)
    unpadded = ranking.drift(rows), ranking.distance_to_newest(rows, pictures(newest))
    monkeypatch.setattr("agents.ranking.padded_size", lambda count, device: count + 3)
    for few, more in zip(
        unpadded, (ranking.drift(rows), ranking.distance_to_newest(rows, pictures(newest))), strict=True
    ):
        np.testing.assert_allclose(more, few, rtol=1e-4, atol=1e-6)
