"""What the agent sees of every kind of space, and what the environment gets for every kind of action."""

from typing import Any

import cv2
import numpy as np
import pytest
from gymnasium import Space, spaces
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_arrays

from options.rules import UsageError
from tests.wrappers.hand_written import Scripted, adapted
from wrappers.any_environment.faults import EnvironmentFaultError
from wrappers.environment import Observation

# Gymnasium accepts these, and its types do not.
BITS = spaces.Box(0, 1, (3,), np.bool_)  # type: ignore[arg-type]
BIT_PICTURE = spaces.Box(0, 1, (4, 6, 3), np.bool_)  # type: ignore[arg-type]
COLUMN = spaces.MultiDiscrete([[2], [3]], start=[[1], [5]])  # type: ignore[list-item]
BYTES = spaces.Box(0, 255, (4, 6, 3), np.uint8)


class MissionSpace(spaces.Text):
    """Named as MiniGrid's."""


def floats(values: list[float]) -> Any:
    return np.array(values, np.float32)


def whole_numbers(dtype: Any) -> spaces.Box:
    return spaces.Box(np.iinfo(dtype).min, np.iinfo(dtype).max, (2,), dtype)


def seen(space: Space[Any], value: Any, **flags: Any) -> Observation:
    return adapted(Scripted(space, observations=[value]), **flags).reset()[0]


def sent(space: Space[Any], action: Any) -> Any:
    env = Scripted(spaces.Discrete(1), space)
    agent = adapted(env)
    agent.reset()
    agent.step(action)
    assert space.contains(env.actions[0])
    return env.actions[0]


@pytest.mark.parametrize(
    ("space", "value", "vector", "one_hot"),
    [
        (spaces.Box(-1, 1, (3,)), np.array([0.5, -1, 1], np.float32), [0.5, -1, 1], 0),
        (spaces.Box(-1, 1, (2, 2), np.float64), np.array([[1, 2], [3, 4.0]]), [1, 2, 3, 4], 0),
        (spaces.Box(-1, 1, (), np.float32), np.float32(0.5), [0.5], 0),
        (spaces.Box(0, 9, (2,), np.int64), np.array([3, 4]), [3, 4], 0),
        (spaces.Box(0, 255, (3,), np.uint8), np.array([0, 7, 255], np.uint8), [0, 7, 255], 0),
        (BITS, np.array([True, False, True]), [1, 0, 1], 3),
        (spaces.Box(-np.inf, np.inf, (1, 2, 2)), np.ones((1, 2, 2), np.float32), [1] * 4, 0),
        (spaces.Discrete(3), 2, [0, 0, 1], 3),
        (spaces.Discrete(3), np.int64(0), [1, 0, 0], 3),
        (spaces.Discrete(3, start=-1), -1, [1, 0, 0], 3),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1], 3),
        (spaces.MultiBinary([2, 2]), np.array([[1, 0], [0, 1]], np.int8), [1, 0, 0, 1], 4),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 2]), [0, 1, 0, 0, 1], 5),
        (spaces.MultiDiscrete([2, 3], dtype=np.uint64), np.array([1, 2], np.uint64), [0, 1, 0, 0, 1], 5),
        (COLUMN, np.array([[1], [6]]), [1, 0, 0, 1, 0], 5),
        (
            spaces.Dict(z=spaces.Discrete(2), a=spaces.Box(-1, 1, (1,)), pair=spaces.Tuple([spaces.Box(0, 5, (2,))])),
            {"z": 1, "a": floats([0.5]), "pair": (floats([3, 4]),)},
            [0.5, 3, 4, 0, 1],  # numbers first, then one-hot, both in the space's order
            2,
        ),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]), (1, 0), [0, 1, 1, 0], 4),
    ],
)
def test_numbers_become_a_vector(space: Space[Any], value: Any, vector: list[float], one_hot: int) -> None:
    agent = adapted(Scripted(space, observations=[value]))
    observation, _ = agent.reset()
    assert observation.vector.tolist() == vector
    assert observation.vector.dtype == np.float32
    assert observation.frame.size == 0
    assert (agent.spec_for_agent.vector_size, agent.spec_for_agent.one_hot_size) == (len(vector), one_hot)
    assert not agent.spec_for_agent.has_pictures


@pytest.mark.parametrize(
    ("space", "value", "flags", "pixel"),
    [
        (BYTES, np.full((4, 6, 3), 9, np.uint8), {}, 9),
        (spaces.Box(0, 10, (4, 6, 3), np.uint8), np.full((4, 6, 3), 4, np.uint8), {}, 102),
        (BYTES, np.full((4, 6, 3), 4, np.uint8), {"largest_pixel": 10}, 102),
        (BYTES, np.full((4, 6, 3), 200, np.uint8), {"largest_pixel": 10}, 255),
        (BYTES, np.full((4, 6, 3), 200, np.int64), {}, 200),
        (BIT_PICTURE, np.full((4, 6, 3), True), {}, 255),
        (spaces.Box(0, 1, (4, 6, 3)), np.full((4, 6, 3), 0.4, np.float32), {}, 102),
        (spaces.Box(-1, 1, (4, 6, 3), np.float64), np.full((4, 6, 3), -0.2), {}, 102),
        (spaces.Box(0, 2, (4, 6, 3), np.int32), np.full((4, 6, 3), 1, np.int32), {}, 128),
        (spaces.Box(0, 1, (4, 6, 3)), np.full((4, 6, 3), 1.7, np.float32), {}, 255),
    ],
)
def test_the_largest_pixel_becomes_255(space: spaces.Box, value: Any, flags: dict[str, Any], pixel: int) -> None:
    frame = seen(space, value, **flags).frame
    assert frame.shape == (3, 4, 6)
    assert frame.dtype == np.uint8
    assert np.unique(frame).tolist() == [pixel]


@given(hypothesis_arrays.arrays(np.uint8, (5, 6, 3)))
def test_channels_first_and_last_are_the_same_picture(picture: Any) -> None:
    last = seen(spaces.Box(0, 255, (5, 6, 3), np.uint8), picture).frame
    first = seen(spaces.Box(0, 255, (3, 5, 6), np.uint8), picture.transpose(2, 0, 1)).frame
    assert (last == first).all()
    assert (last == picture.transpose(2, 0, 1)).all()
    channel = picture[:, :, 0]
    assert (seen(spaces.Box(0, 255, (5, 6), np.uint8), channel).frame[0] == channel).all()


@pytest.mark.parametrize(
    ("shape", "frame_shape"),
    [
        ((84, 84, 3), (3, 84, 84)),
        ((3, 60, 80), (3, 60, 80)),
        ((2, 84, 84), (2, 84, 84)),  # two frames of FrameStackObservation
        ((9, 84, 84), (9, 84, 84)),
        ((10, 10, 4), (4, 10, 10)),
        ((10, 10, 10), (10, 10, 10)),
        ((6, 7, 2), (2, 6, 7)),
        ((8, 8, 111), (111, 8, 8)),
        ((4, 4, 16), (16, 4, 4)),
        ((3, 3, 27), (27, 3, 3)),
        ((1, 1, 9), (9, 1, 1)),
    ],
)
def test_the_dimension_of_the_channels_is_found(shape: tuple[int, ...], frame_shape: tuple[int, ...]) -> None:
    env = Scripted(spaces.Box(0, 255, shape, np.uint8))
    assert adapted(env).spec_for_agent.frame_shape == frame_shape


def test_grey_and_scaled_as_the_flags_say() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (8, 12, 3), np.uint8)
    space = spaces.Box(0, 255, picture.shape, np.uint8)
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    assert (seen(space, picture, grayscaling_frames=True).frame[0] == grey).all()
    halves = picture.reshape(4, 2, 6, 2, 3).mean(axis=(1, 3)).transpose(2, 0, 1)
    scaled = seen(space, picture, frame_scale_resolution="4,6").frame
    assert scaled.shape == (3, 4, 6)
    assert np.abs(scaled - halves).max() <= 0.5
    both = seen(space, picture, frame_scale_resolution="4,6", grayscaling_frames=True).frame
    assert both.shape == (1, 4, 6)
    assert np.abs(both[0] - grey.reshape(4, 2, 6, 2).mean(axis=(1, 3))).max() <= 0.5


@pytest.mark.parametrize("resolution", [(4, 6), (3, 5)])
def test_channels_are_scaled_each_on_its_own(resolution: tuple[int, int]) -> None:
    """OpenCV scales at most four at once."""
    picture = np.random.default_rng(0).integers(0, 256, (8, 12, 9), np.uint8)
    flags = {"frame_scale_resolution": f"{resolution[0]},{resolution[1]}"}
    scaled = seen(spaces.Box(0, 255, picture.shape, np.uint8), picture, **flags).frame
    for channel in range(9):
        alone = picture[:, :, channel]
        expected = seen(spaces.Box(0, 255, alone.shape, np.uint8), alone, **flags).frame[0]
        assert (scaled[channel] == expected).all()


def test_pictures_of_one_size_are_joined_beside_a_vector() -> None:
    space = spaces.Dict(
        left=BYTES,
        deep=spaces.Tuple([spaces.Box(0, 255, (4, 6), np.uint8), spaces.Box(-9, 9, (1,))]),
        key=spaces.Discrete(2),
    )
    value = {
        "left": np.full((4, 6, 3), 7, np.uint8),
        "deep": (np.full((4, 6), 8, np.uint8), floats([3])),
        "key": 0,
    }
    observation = seen(space, value)
    assert observation.frame[:, 0, 0].tolist() == [7, 7, 7, 8]
    assert observation.vector.tolist() == [3, 1, 0]


@pytest.mark.parametrize(
    ("space", "flags", "sentence"),
    [
        (spaces.Text(5), {}, "the observation is a Text space, and supported are Box, Discrete, MultiBinary and"),
        (
            spaces.Dict(a=BYTES, mission=spaces.Text(5)),
            {},
            "is a Text space, .*; --env_wrapper=module:function",
        ),
        (spaces.Dict(mission=MissionSpace(5)), {}, "as minigrid.wrappers:ImgObsWrapper does with the text"),
        (spaces.Graph(BYTES, None), {}, "is a Graph space, .* --env_wrapper=module:function"),
        (spaces.Sequence(spaces.Discrete(2)), {}, "is a Sequence space"),
        (spaces.Dict({}), {}, "observations of 0 numbers"),
        (spaces.Box(-np.inf, np.inf, (10_001,)), {}, "10001 numbers that are no picture; 1 to 10000"),
        (spaces.Discrete(20_000), {}, "20000 numbers"),
        (spaces.Tuple([spaces.Box(-1, 1, (6_000,)), spaces.Discrete(4_001)]), {}, "observations of 10001 numbers"),
        (spaces.Tuple([BYTES, spaces.Box(0, 255, (5, 6, 3), np.uint8)]), {}, "pictures of several sizes: .*5×6.*4×6"),
        (spaces.Box(0, 255, (8, 6, 7), np.uint8), {"grayscaling_frames": True}, "7 channels; --nograyscaling_frames"),
        (spaces.Box(0, 255, (8, 6, 7), np.uint8), {"frames_stacked": 20}, "at most 128 channels"),
        (spaces.Box(0, 0, (4, 6, 3), np.uint8), {}, "no value above 0; .*--largest_pixel"),
    ],
)
def test_what_is_not_supported_is_refused(space: Space[Any], flags: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as raised:
        adapted(Scripted(space), **flags)
    assert str(raised.value).startswith("--")
    assert str(raised.value).endswith(".")


VECTOR = spaces.Box(-1, 1, (2,), np.float32)
PAIR: Space[Any] = spaces.Tuple([VECTOR, BYTES])


@pytest.mark.parametrize(
    ("space", "value", "what"),
    [
        (VECTOR, floats([0, np.nan]), r"the observation has nan at place 1; finite float32 numbers would be right"),
        (VECTOR, floats([np.inf, 0]), "has inf at place 0"),
        (spaces.Box(-1, 1, (100,)), np.full(100, np.nan, np.float32), "has nan at place 0"),
        (VECTOR, np.zeros(3, np.float32), r"has the shape \[3\], and its space says \[2\]"),
        (VECTOR, [0.0], "has the shape"),
        (VECTOR, [[0.0], [1.0, 2.0]], "is no array"),
        (VECTOR, np.array(["a", "b"]), "has the dtype <U1, and its space says float32"),
        (VECTOR, np.array([None, 1.0]), "has the dtype object"),
        (VECTOR, None, "has the shape"),
        (BYTES, np.zeros((4, 6, 3), np.float32), "has the dtype float32, and its space says uint8"),
        (BYTES, np.zeros((6, 4, 3), np.uint8), r"has the shape \[6, 4, 3\], and its space says \[4, 6, 3\]"),
        (spaces.Box(0, 1, (4, 6, 3)), np.full((4, 6, 3), np.nan, np.float32), "pixels that are NaN or infinite"),
        (spaces.Discrete(3), 3, "is 3, and its space says 0 to 2"),
        (spaces.Discrete(3, start=4), 0, "is 0, and its space says 4 to 6"),
        (spaces.Discrete(3), 1.0, "is 1.0, no whole number"),
        (spaces.MultiBinary(2), np.array([0, 2], np.int8), "other numbers than 0 and 1"),
        (spaces.MultiDiscrete([2, 2]), np.array([0, 2]), "and its space says MultiDiscrete"),
        (spaces.Dict(a=VECTOR), {"b": np.zeros(2)}, r"the observation\['a'\] is missing \(KeyError\('a'\)\)"),
        (PAIR, (np.zeros(2, np.float32),), r"the observation\[1\] is missing"),
        (spaces.Dict(a=VECTOR), None, "is missing"),
    ],
)
def test_a_wrong_observation_is_a_fault(space: Space[Any], value: Any, what: str) -> None:
    right = space.sample()
    agent = adapted(Scripted(space, observations=[right, right, value]))
    agent.reset()
    agent.step(0)
    with pytest.raises(EnvironmentFaultError, match=f"^CartPole-v1 has a fault in step 2 of a game: .*{what}.*\\.$"):
        agent.step(0)
    with pytest.raises(EnvironmentFaultError, match=f"^CartPole-v1 has a fault in a reset: .*{what}"):
        adapted(Scripted(space, observations=[value])).reset()


@pytest.mark.parametrize("reward", [np.nan, np.inf, "much", None, np.zeros(2)])
def test_a_wrong_reward_is_a_fault(reward: Any) -> None:
    agent = adapted(Scripted(VECTOR, rewards=[0.0, reward]))
    agent.reset()
    agent.step(0)
    with pytest.raises(
        EnvironmentFaultError, match="in step 2 of a game: the reward is .*; a number of at most 1e\\+30"
    ):
        agent.step(0)


@pytest.mark.parametrize("reward", [2, np.float64(2), np.float32(2), np.int64(2), np.array(2.0), True])
def test_numbers_of_all_types_are_rewards(reward: Any) -> None:
    agent = adapted(Scripted(VECTOR, rewards=[reward]))
    agent.reset()
    assert agent.step(0)[1] == float(reward)
    assert type(agent.step(0)[1]) is float


@pytest.mark.parametrize(
    ("space", "action", "expected"),
    [
        (spaces.Discrete(4), 3, 3),
        (spaces.Discrete(4, start=-2), np.int64(3), 1),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 2], np.int32), [1, 2]),
        (COLUMN, np.array([1, 2], np.int32), [[2], [7]]),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int32), [1, 0, 1]),
        (spaces.MultiBinary([2, 1]), np.array([0, 1], np.int32), [[0], [1]]),
        (spaces.Box(-2, 2, (3,)), floats([-0.5, 3, -7]), [-1, 2, -2]),
        (spaces.Box(0, 10, (2, 1)), floats([0, 0.5]), [[5], [7.5]]),
        (spaces.Box(-np.inf, np.inf, (2,)), floats([-7, 9]), [-7, 9]),
        (spaces.Box(floats([0, -np.inf]), floats([np.inf, 3])), floats([-7, 9]), [0, 3]),
        (spaces.Box(floats([0, -np.inf]), floats([4, np.inf])), floats([0.5, 9]), [3, 9]),
        (spaces.Box(0, 4, (2,), np.int64), floats([0.4, 1]), [3, 4]),
        (spaces.Box(-3e38, 3e38, (1,)), floats([0.5]), [np.float32(1.5e38)]),
        *(
            (whole_numbers(dtype), floats([-1, 1]), [np.iinfo(dtype).min, np.iinfo(dtype).max])
            for dtype in (np.int8, np.uint32)
        ),
        (spaces.Box(0, 1, (3,), np.bool_), floats([-1, 1, 9]), [False, True, True]),  # type: ignore[arg-type]
    ],
)
def test_actions_are_those_of_the_space(space: Space[Any], action: Any, expected: Any) -> None:
    got = sent(space, action)
    assert np.asarray(got).tolist() == expected


@given(
    low=st.floats(-(2**20), 2**20, width=32),
    width=st.floats(0, 2**20, width=32),
    action=st.floats(width=32, allow_nan=False),
)
def test_a_bounded_action_never_leaves_its_bounds(low: float, width: float, action: float) -> None:
    high = float(np.float32(low + width))
    space = spaces.Box(floats([low]), floats([max(low, high)]))
    got = sent(space, floats([action]))
    exact = low + (np.clip(action, -1, 1) + 1) / 2 * (max(low, high) - low)
    assert got[0] == pytest.approx(exact, rel=1e-5, abs=1e-5 * (abs(low) + width) + 1e-37)


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        (spaces.Text(3), "actions in a Text space, and supported are Discrete, MultiDiscrete, MultiBinary and Box"),
        (spaces.Dict(a=spaces.Text(3)), "actions in a Text space"),
        (spaces.Discrete(10_001), "10001 choices"),
        (spaces.Box(-1, 1, (5_001,)), "5001 choices or numbers in an action; 1 to 5000 would be right"),
    ],
)
def test_other_actions_are_refused(space: Space[Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        adapted(Scripted(spaces.Discrete(2), space))
