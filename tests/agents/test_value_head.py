"""PopArt: values in units of the deviation of their targets."""

import copy
import dataclasses

import pytest
import torch

from agents.heads import ValueHead
from agents.learner import Learner
from agents.network import ActorCritic
from option_flags import LossOptions, NetworkOptions, OptimizerOptions
from tests.agents.learners import ALL_TERMS, LAYOUT, make_batch, make_learner, reported

TERMS_IN_UNITS = {  # by the power of the unit that they are divided by
    **{"policy_loss": 1, "value_loss": 2, "value_cloning_loss": 2},
    **{"entropy_loss": 0, "proximal_loss": 0, "policy_cloning_loss": 0},
}


def head_with(unit: float, centre: float) -> ValueHead:
    torch.manual_seed(0)
    head = ValueHead(slice(0, 6), popart=True)
    assert head.unit is not None and head.centre is not None
    head.unit.fill_(unit)
    head.centre.fill_(centre)
    return head


def unit_of(head: ValueHead) -> float:
    assert head.unit is not None
    return float(head.unit)


def popart_learner(loss: LossOptions = ALL_TERMS) -> Learner:
    torch.manual_seed(0)
    network = ActorCritic(NetworkOptions(network="impala_shallow", popart=True), LAYOUT, torch.float32)
    options = OptimizerOptions(optimizer="adam", lr=1e-3, lr_warmup_updates=0)
    return Learner(network, LAYOUT, loss, options, 100, torch.device("cpu"))


@pytest.mark.parametrize("weight", [1.0, 0.3, 0.001])
def test_values_stay_the_same_when_the_unit_changes(weight: float) -> None:
    head, features = head_with(2.0, -1.0), torch.randn(50, 6)
    before = head(features)
    head.follow(torch.randn(40) * 30 + 200, weight)
    assert unit_of(head) > 2.5
    torch.testing.assert_close(head(features), before, rtol=1e-4, atol=1e-4)


def test_unit_and_centre_are_those_of_all_targets_with_falling_weights() -> None:
    head, groups = head_with(1.0, 0.0), [torch.randn(20) * scale + 5 * scale for scale in (1.0, 3.0, 9.0)]
    for count, group in enumerate(groups, start=1):
        head.follow(group, 1 / count)
    targets = torch.cat(groups)
    torch.testing.assert_close(head.centre, targets.mean()[None])
    torch.testing.assert_close(head.unit, targets.std(correction=0)[None])


def test_constant_targets_leave_a_unit_that_can_divide() -> None:
    head, features = head_with(1.0, 0.0), torch.randn(5, 6)
    for _ in range(3):
        head.follow(torch.full((9,), 7.0), 1.0)
    assert torch.isfinite(head(features)).all() and unit_of(head) > 0


@pytest.mark.parametrize("loss", ["vtrace", "impact"])
def test_each_term_is_in_units(loss: str) -> None:
    unit, centre = 8.0, 3.0
    options = dataclasses.replace(ALL_TERMS, loss=loss)
    plain, scaled = make_learner(options), popart_learner(options)
    weights = plain.network.state_dict()
    same_values = {
        "value_head.weight": weights["value_head.weight"] / unit,
        "value_head.bias": (weights["value_head.bias"] - centre) / unit,
        "value_head.unit": torch.tensor([unit]),
        "value_head.centre": torch.tensor([centre]),
    }
    scaled.network.load_state_dict({**weights, **same_values})
    if scaled._target is not None:
        scaled._target.renew({**weights, **same_values})
    batch = make_batch([True, False, True, False])
    expected, found = reported(plain, batch), reported(scaled, batch)
    for name, power in TERMS_IN_UNITS.items():
        assert found[name] == pytest.approx(expected[name] / unit**power, rel=1e-4, abs=1e-7), name
    assert found["value_mean"] == pytest.approx(expected["value_mean"], rel=1e-4)


def test_an_update_moves_unit_and_centre_to_its_targets() -> None:
    learner, batch = popart_learner(), make_batch([True, True])
    LAYOUT.arrays(batch.rows.numpy())["rewards"][:] *= 500
    learner.update(batch)
    head = learner.network.value_head
    assert head.unit is not None and unit_of(head) > 50


def test_rewards_of_any_size_give_the_same_policy() -> None:
    """After the first update, whose unit is still 1; RMSProp and Adam divide what is left of the size away."""
    loss = dataclasses.replace(LossOptions(), use_kl_mask=False, entropy_loss_weight=0.0, proximal_loss_weight=0.0)
    ends = []
    for size in (1.0, 1000.0):
        learner = popart_learner(loss)
        head = learner.network.value_head
        assert head.unit is not None
        head.unit.fill_(size)
        with torch.no_grad():  # values of 0, in every unit
            head.weight.zero_()
            head.bias.zero_()
        for seed in range(5):
            batch = make_batch([True, True], seed=seed)
            fields = LAYOUT.arrays(batch.rows.numpy())
            for name in ("rewards", "bootstraps", "values"):
                fields[name][:] *= size
            learner.update(batch)
        ends.append(copy.deepcopy(learner.network.policy_head.weight.detach()))
    torch.testing.assert_close(ends[1], ends[0], rtol=1e-3, atol=1e-5)


def test_without_popart_there_is_nothing_to_save() -> None:
    assert {name for name in make_learner().network.state_dict() if name.startswith("value_head")} == {
        "value_head.weight",
        "value_head.bias",
    }
