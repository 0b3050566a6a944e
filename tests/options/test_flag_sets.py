"""--loss sets the weight of the proximal loss where it is not given, and a run keeps its own."""

from typing import Any

import pytest

from option_flags import OPTIONS
from options.flag_sets import LOSSES, VTRACE, merged
from tests.options.words import parse


def weight(words: list[str]) -> float:
    return parse(words).loss.proximal_loss_weight


def test_impact_has_no_proximal_loss_unless_it_is_given() -> None:
    assert weight(["--loss=impact"]) == 0
    assert weight(["--loss=impact", "--proximal_loss_weight=0.05"]) == 0.05
    assert weight([]) == weight(["--loss=vtrace"]) == 0.05


def test_the_flags_of_vtrace_are_the_defaults() -> None:
    assert LOSSES[VTRACE] == {name: OPTIONS[name].default for name in LOSSES[VTRACE]}
    assert OPTIONS["loss"].default == VTRACE


@pytest.mark.parametrize("saved", [{"loss": "impact", "proximal_loss_weight": 0.05}, {"proximal_loss_weight": 0.2}])
def test_a_run_that_keeps_its_loss_keeps_the_weight(saved: dict[str, Any]) -> None:
    assert merged(saved, {"lr": 0.1}) == {**saved, "lr": 0.1}
    own = {"loss": saved.get("loss", VTRACE)}
    assert merged(saved, own) == {**saved, **own}


def test_a_run_that_goes_on_with_another_loss_gets_its_weight() -> None:
    assert merged({"proximal_loss_weight": 0.2}, {"loss": "impact"})["proximal_loss_weight"] == 0
    impact = {"loss": "impact", "proximal_loss_weight": 0.0}
    assert merged(impact, {"loss": "vtrace"})["proximal_loss_weight"] == 0.05
    assert merged(impact, {"loss": "vtrace", "proximal_loss_weight": 0.3})["proximal_loss_weight"] == 0.3
