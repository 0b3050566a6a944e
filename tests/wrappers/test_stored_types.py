"""The types in which unrolls store vectors."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import Space, spaces

from agents.spaces import unroll_layout
from option_flags import Config
from tests.wrappers.hand_written import Scripted, adapted
from wrappers.any_environment.faults import EnvironmentFaultError

STATES = 21  # of an unroll of 20 steps

BYTES = spaces.Box(0, 255, (7,), np.uint8)
MIXED = spaces.Dict(
    gear=spaces.Discrete(5, start=2),
    speed=spaces.Box(-1, 1, (2,)),
    lamps=spaces.MultiBinary(4),
    memory=BYTES,
    cards=spaces.MultiDiscrete([3, 260], start=[1, 0]),
    height=spaces.Box(-300, 300, (2, 2), np.int16),
    error=spaces.Box(-9, 9, (1,), np.int8),
    place=spaces.Box(-1, 1, (3,), np.float64),
    doors=spaces.Box(0, 1, (2,), np.bool_),
)
CASES: dict[str, tuple[Space[Any], str]] = {
    "FrozenLake": (gymnasium.make("FrozenLake-v1").observation_space, "uint8"),
    "Taxi": (gymnasium.make("Taxi-v4").observation_space, "uint8"),
    "CartPole": (gymnasium.make("CartPole-v1").observation_space, "float32"),
    "MultiBinary": (spaces.MultiBinary([3, 5]), "uint8"),
    "MultiDiscrete": (spaces.MultiDiscrete(np.array([[2, 9], [4, 3]])), "uint8"),
    "uint8": (BYTES, "uint8"),
    "int8": (spaces.Box(-128, 127, (7,), np.int8), "int8"),
    "int8 and choices": (spaces.Tuple([spaces.Box(-128, 127, (7,), np.int8), spaces.Discrete(3)]), "int16"),
    "int16": (spaces.Box(-9, 9, (7,), np.int16), "int16"),
    "uint16": (spaces.Box(0, 65_535, (7,), np.uint16), "float32"),
    "int64": (spaces.Box(0, 9, (7,), np.int64), "float32"),
    "float16": (spaces.Box(-1, 1, (7,), np.float16), "float32"),
    "mixed": (MIXED, "float32"),
}


@pytest.mark.parametrize("name", CASES)
def test_vectors_are_stored_in_the_smallest_type_that_holds_them_exactly(name: str) -> None:
    space, dtype = CASES[name]
    agent = adapted(Scripted(space))
    layout = unroll_layout(Config().replace_flags(r_f_steps=STATES - 1), agent.spec_for_agent)
    assert layout.by_name["vectors"].shape == (STATES, layout.vector_size)
    assert layout.by_name["vectors"].dtype == dtype
    rows = np.zeros((1, layout.nbytes), np.uint8)
    observations = [agent.reset()[0].vector, *(agent.step(0)[0].vector for _ in range(STATES - 1))]
    layout.array(rows, "vectors")[0] = observations
    read = layout.tensors(torch.from_numpy(rows))["vectors"].float()
    np.testing.assert_array_equal(read[0].numpy(), np.stack(observations))
    assert len({vector.tobytes() for vector in observations}) > 1


@pytest.mark.parametrize("value", [300, -1])
def test_whole_numbers_that_their_type_cannot_hold_are_a_fault(value: int) -> None:
    """As where a space of bytes gets int64 numbers; what fits is admitted."""
    fits = np.array([0, 1, 2, 3, 4, 5, 255])
    agent = adapted(Scripted(BYTES, observations=[fits, np.array([0, 1, value, 3, 4, 5, 6])]))
    assert agent.reset()[0].vector.tolist() == fits.tolist()
    with pytest.raises(EnvironmentFaultError, match=f"the observation is .* {value} .*, and its space says uint8"):
        agent.step(0)
