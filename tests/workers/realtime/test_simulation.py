"""Figures of actions whose times are given."""

import numpy as np
import pytest

from tests.workers.realtime.simulation import Actions, measure


def test_the_figures_of_a_few_actions() -> None:
    """Frames of 10 begin at 95, 105, 115 and so on; the first has two actions, the third and the fourth none."""
    actions = Actions(np.array([0.0, 100, 104, 108, 140]), np.array([99.0, 10, 20, 30, 40]))
    timing = measure(actions, frame=10, since=50)
    assert timing.rate == 3 / 40
    assert timing.used_rate == 3 / 50
    assert timing.missed == pytest.approx(2 / 5)
    assert timing.interval_mean == pytest.approx(40 / 3)
    assert timing.interval_deviation == pytest.approx(np.std([4, 4, 32]))
    assert timing.interval_max == 32
    assert timing.age_mean == 25


def test_one_action_has_no_interval() -> None:
    with pytest.raises(ValueError, match="1 actions"):
        measure(Actions(np.array([1.0, 2.0]), np.ones(2)), 10, since=1.5)
