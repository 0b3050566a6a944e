"""Actions in Dict and Tuple spaces."""

from typing import Any

import numpy as np
import pytest
from gymnasium import Space, spaces

from options.rules import UsageError
from wrappers.any_environment.actions import actions_for

ARM = spaces.Dict({"speed": spaces.Box(-2, 2, (1,), np.float32), "grip": spaces.MultiBinary(2)})
NESTED = spaces.Dict({"move": spaces.Discrete(3, start=1), "arm": spaces.Tuple((ARM, spaces.Discrete(2)))})


@pytest.mark.parametrize(
    ("space", "kind", "sizes", "names"),
    [
        (spaces.Tuple((spaces.Discrete(2), spaces.MultiDiscrete([3, 4]))), "product", (2, 3, 4), ("0", "1[0]", "1[1]")),
        (spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Box(0, 1, ())}), "gaussian", (0, 0, 0), None),
        (NESTED, "mixed", (2, 2, 2, 3, 0), ("arm.0.grip[0]", "arm.0.grip[1]", "arm.1", "move", "arm.0.speed")),
        (spaces.Dict({"only": spaces.Discrete(5)}), "product", (5,), ("only",)),
    ],
)
def test_the_parts_become_one_action(
    space: Space[Any], kind: str, sizes: tuple[int, ...], names: tuple[str, ...] | None
) -> None:
    actions = actions_for(space)
    assert (actions.kind, actions.sizes) == (kind, sizes)
    assert names is None or actions.names == names
    assert len(actions.names) == len(actions.sizes)
    chosen = actions.space
    chosen.seed(0)
    for _ in range(20):
        assert space.contains(actions.to_environment(chosen.sample()))


def test_each_part_gets_its_own_numbers() -> None:
    action = actions_for(NESTED).to_environment(np.array([1, 0, 1, 2, 0.5], np.float32))
    arm, last = action["arm"]
    assert action["move"] == 3 and last == 1
    assert arm["grip"].tolist() == [1, 0]
    assert arm["speed"].tolist() == [1.0]  # half of the range to the right of its middle


@pytest.mark.parametrize(
    "space", [spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Text(3)}), spaces.Tuple(()), spaces.Dict({})]
)
def test_other_parts_are_refused(space: Space[Any]) -> None:
    with pytest.raises(UsageError, match="--env has"):
        actions_for(space)
