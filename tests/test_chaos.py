"""A few rounds of `python -m tests.chaos`."""

from pathlib import Path

import pytest

from tests.chaos import play_rounds

pytestmark = pytest.mark.slow


def test_some_rounds_of_interrupts_and_kills(tmp_path: Path) -> None:
    lines = list(play_rounds(4, seed=5, results=tmp_path, slack=8.0, longest_delay=5.0, workers=1))
    assert lines[-1].startswith("4 rounds, no guarantee broken")
