"""The settings that suit an environment follow from its observations and actions."""

from typing import Any

import pytest

from agents.spaces import suited_settings
from wrappers.environment import EnvironmentSpec

PICTURE = {"vector_size": 0}
NUMBERS = {"frame_shape": (0, 0, 0), "vector_size": 4}


@pytest.mark.parametrize(
    ("seen", "action_kind", "settings"),
    [
        (NUMBERS, "discrete", "numbers"),
        (NUMBERS, "product", "numbers"),
        (NUMBERS, "gaussian", "continuous"),
        ({**PICTURE, "frame_shape": (4, 10, 10)}, "discrete", "small_pictures"),
        ({**PICTURE, "frame_shape": (3, 35, 84), "vector_size": 3}, "discrete", "small_pictures"),
        ({**PICTURE, "frame_shape": (3, 36, 36)}, "discrete", "standard"),
        ({**PICTURE, "frame_shape": (3, 84, 84)}, "gaussian", "standard"),
        ({**PICTURE, "frame_shape": (3, 10, 10)}, "mixed", "small_pictures"),
    ],
)
def test_the_settings_suit_the_observations_and_actions(seen: dict[str, Any], action_kind: Any, settings: str) -> None:
    spec = EnvironmentSpec(**seen, one_hot_size=0, action_kind=action_kind, action_sizes=(2,), can_snapshot=False)
    assert suited_settings(spec) == settings
