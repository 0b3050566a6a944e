"""The types in which unrolls store each part of an observation, and how many bytes that takes."""

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import Space, spaces

from agents.spaces import unroll_layout
from option_flags import Config
from replay.row_layout import ALIGNMENT
from replay.stored_vectors import VectorPart
from tests.wrappers.hand_written import Scripted, adapted
from wrappers.any_environment.faults import EnvironmentFaultError

STATES = 21  # of an unroll of 20 steps
FLOAT32 = 4

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
CASES: dict[str, tuple[Space[Any], dict[str, tuple[int, str]]]] = {
    "FrozenLake": (gymnasium.make("FrozenLake-v1").observation_space, {"vectors_choice": (1, "uint8")}),
    "Taxi": (gymnasium.make("Taxi-v4").observation_space, {"vectors_choice": (1, "int16")}),
    "Blackjack": (gymnasium.make("Blackjack-v1").observation_space, {"vectors_choice": (3, "uint8")}),
    "CartPole": (gymnasium.make("CartPole-v1").observation_space, {"vectors": (4, "float32")}),
    "MultiBinary": (spaces.MultiBinary([3, 5]), {"vectors_uint8": (15, "uint8")}),
    "MultiDiscrete": (spaces.MultiDiscrete(np.array([[2, 9], [4, 3]])), {"vectors_choice": (4, "uint8")}),
    "uint8": (BYTES, {"vectors_uint8": (7, "uint8")}),
    "int8": (spaces.Box(-128, 127, (7,), np.int8), {"vectors_int8": (7, "int8")}),
    "int16": (spaces.Box(-9, 9, (7,), np.int16), {"vectors_int16": (7, "int16")}),
    "uint16": (spaces.Box(0, 65_535, (7,), np.uint16), {"vectors": (7, "float32")}),
    "int64": (spaces.Box(0, 9, (7,), np.int64), {"vectors": (7, "float32")}),
    "float16": (spaces.Box(-1, 1, (7,), np.float16), {"vectors": (7, "float32")}),
    "float64": (spaces.Box(-1, 1, (7,), np.float64), {"vectors": (7, "float32")}),
    "mixed": (
        MIXED,
        {
            "vectors": (5, "float32"),
            "vectors_uint8": (13, "uint8"),  # memory, lamps and doors
            "vectors_int8": (1, "int8"),
            "vectors_int16": (4, "int16"),
            "vectors_choice": (3, "int16"),
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_part_is_stored_in_a_small_type_that_holds_it_exactly(name: str) -> None:
    space, expected = CASES[name]
    agent = adapted(Scripted(space))
    layout = unroll_layout(Config().replace_flags(r_f_steps=STATES - 1), agent.spec_for_agent)
    fields = {field.name: field for field in layout.fields if field.name.startswith("vectors")}
    assert {name: (field.shape, field.dtype) for name, field in fields.items()} == {
        name: ((STATES, size), dtype) for name, (size, dtype) in expected.items()
    }
    rows = np.zeros((1, layout.nbytes), np.uint8)
    unrolls = layout.arrays(rows)
    observations = [agent.reset()[0].vector, *(agent.step(0)[0].vector for _ in range(STATES - 1))]
    for state, vector in enumerate(observations):
        layout.stored_vectors.write(unrolls, (0, state), vector)
    read = layout.stored_vectors.read(layout.tensors(torch.from_numpy(rows)))
    np.testing.assert_array_equal(read[0].numpy(), np.stack(observations))
    assert len({vector.tobytes() for vector in observations}) > 1


@pytest.mark.parametrize(
    ("name", "nbytes"),
    [
        ("FrozenLake", 1 * STATES),
        ("Taxi", 2 * STATES),
        ("MultiBinary", 15 * STATES),
        ("uint8", 7 * STATES),
        ("CartPole", 4 * FLOAT32 * STATES),
        ("mixed", (5 * FLOAT32 + 13 + 1 + 4 * 2 + 3 * 2) * STATES),
    ],
)
def test_bytes_of_an_unroll(name: str, nbytes: int) -> None:
    """Only what the observations need, up to the alignment of each field."""
    spec = adapted(Scripted(CASES[name][0])).spec_for_agent
    layout = unroll_layout(Config().replace_flags(r_f_steps=STATES - 1), spec)
    fields = [field for field in layout.fields if field.name.startswith("vectors")]
    assert sum(field.nbytes for field in fields) == nbytes
    without = replace(layout, vector_size=0, one_hot_size=0, vector_parts=())
    assert nbytes <= layout.nbytes - without.nbytes < nbytes + ALIGNMENT * len(fields)


def test_neighbours_of_one_type_are_one_part() -> None:
    assert adapted(Scripted(MIXED)).spec_for_agent.vector_parts == (
        VectorPart("float32", 2),
        VectorPart("uint8", 7),
        VectorPart("int16", 4),
        VectorPart("int8", 1),
        VectorPart("float32", 3),
        VectorPart("choice", 5),
        VectorPart("uint8", 4),
        VectorPart("choice", 3),
        VectorPart("choice", 260),
        VectorPart("uint8", 2),
    )


@pytest.mark.parametrize("value", [300, -1])
def test_whole_numbers_that_their_type_cannot_hold_are_a_fault(value: int) -> None:
    """As where a space of bytes gets int64 numbers; what fits is admitted."""
    fits = np.array([0, 1, 2, 3, 4, 5, 255])
    agent = adapted(Scripted(BYTES, observations=[fits, np.array([0, 1, value, 3, 4, 5, 6])]))
    assert agent.reset()[0].vector.tolist() == fits.tolist()
    with pytest.raises(
        EnvironmentFaultError, match=f"the observation has {value} at place 2, and its space says uint8"
    ):
        agent.step(0)
