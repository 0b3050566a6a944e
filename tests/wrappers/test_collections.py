"""Real environments of several collections, each with its own kinds of observations and actions."""

import importlib.util
import os
from typing import Any

import numpy as np
import pytest

from tests.wrappers.hand_written import options_of
from wrappers.environment import environment_spec
from wrappers.make_environment import check_environment, make_environment

REQUIRED = "COLLECTION_TESTS_REQUIRED"


def collection(module: str, env: str, shapes: tuple[Any, ...], **flags: Any) -> Any:
    """A test of an environment; skipped without its package, unless the tests of all collections are required."""
    missing = importlib.util.find_spec(module) is None and os.environ.get(REQUIRED) != "1"
    marks = pytest.mark.skipif(missing, reason=f"the package {module} is not installed")
    return pytest.param(env, shapes, flags, marks=marks, id=env)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "shapes", "flags"),
    [
        collection("gymnasium", "CartPole-v1", (0, (0, 0, 0), 4, 0, "discrete", 2)),
        collection("gymnasium", "Taxi-v4", (0, (0, 0, 0), 500, 500, "discrete", 6)),
        collection("gymnasium", "Blackjack-v1", (0, (0, 0, 0), 45, 45, "discrete", 2)),
        collection("gymnasium", "Pendulum-v1", (0, (0, 0, 0), 3, 0, "gaussian", 2)),
        collection("ale_py", "ALE/Pong-v5", (4, (1, 84, 84), 0, 0, "discrete", 6)),
        collection("Box2D", "LunarLander-v3", (0, (0, 0, 0), 8, 0, "discrete", 4)),
        collection("minatar", "MinAtar/Breakout-v1", (1, (4, 10, 10), 0, 0, "discrete", 3)),
        collection(
            *("minigrid", "MiniGrid-DoorKey-6x6-v0", (1, (3, 7, 7), 0, 0, "discrete", 7)),
        ),
        collection("mujoco", "HalfCheetah-v5", (0, (0, 0, 0), 17, 0, "gaussian", 12)),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_environment_is_played(env: str, shapes: tuple[Any, ...], flags: dict[str, Any]) -> None:
    options = options_of(env, **flags)
    check_environment(options)
    first, second = make_environment(options, 5), make_environment(options, 5)
    spec = environment_spec(first)
    described = (
        options.frames_stacked if spec.has_pictures else 0,
        spec.frame_shape,
        spec.vector_size,
        spec.one_hot_size,
        spec.action_kind,
    )
    assert (*described, spec.action_count) == shapes
    first.action_space.seed(0)
    observations = [first.reset()[0], second.reset()[0]]
    mask_size = environment_spec(first).mask_size  # known after a reset
    for _ in range(300):
        frame, vector = observations[0]
        assert frame.shape == spec.frame_shape
        assert (vector.shape, vector.dtype) == ((spec.vector_size + mask_size,), np.float32)
        assert (frame == observations[1].frame).all() and (vector == observations[1].vector).all()
        action = first.action_space.sample()
        steps = [played.step(action) for played in (first, second)]
        assert steps[0][1:4] == steps[1][1:4]
        over = steps[0][2] or steps[0][3]
        observations = [p.reset()[0] if over else s[0] for p, s in zip((first, second), steps, strict=True)]
    for played in (first, second):
        played.close()
