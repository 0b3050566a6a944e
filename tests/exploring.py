"""Runs in which all rewards count as rare, so that their share of environments that explore does so from round two."""

from functools import partial
from typing import Any

import gymnasium
import pytest

from workers import randomness


def exploring(make_environment: Any, patch: pytest.MonkeyPatch) -> Any:
    """The same, for a run whose worker processes explore; `patch` undoes in this process what it does in theirs."""
    patch.setattr(randomness, "WINDOW", 1)
    patch.setattr(randomness, "RARE", 2.0)
    return partial(_make, make_environment)


def _make(make_environment: Any, *arguments: Any) -> gymnasium.Env[Any, Any]:
    randomness.WINDOW, randomness.RARE = 1, 2.0
    environment: gymnasium.Env[Any, Any] = make_environment(*arguments)
    return environment
