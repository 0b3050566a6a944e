"""On a CPU, IMPACT's target network computes in a second thread, at the same time as the network."""

import threading
import time

import pytest
import torch

from agents.learner import Learner
from agents.network import ActorCritic
from option_flags import NetworkOptions, OptimizerOptions
from tests.agents.learners import LAYOUT, make_batch
from tests.agents.test_impact import IMPACT


def impact_learner(precision: torch.dtype = torch.float32) -> Learner:
    torch.manual_seed(0)
    network = ActorCritic(NetworkOptions(network="impala_shallow"), LAYOUT, precision)
    return Learner(network, LAYOUT, IMPACT, OptimizerOptions(), 100, torch.device("cpu"))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_the_target_computes_at_the_same_time_and_changes_no_bit(
    precision: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [make_batch([True] * 4, seed=seed) for seed in range(7)]
    monkeypatch.setattr("agents.impact.usable_cores", lambda: 2 * torch.get_num_threads())
    together = impact_learner(precision)
    both = threading.Barrier(2)

    def meet(*_: object) -> None:
        both.wait(60)  # neither passes it alone

    assert together._target is not None
    for network in (together.network, together._target.network):
        network.register_forward_pre_hook(meet)
    for batch in batches:
        together.update(batch)
    monkeypatch.setattr("agents.impact.usable_cores", lambda: 1)
    one_after_the_other = impact_learner(precision)
    for batch in batches:
        one_after_the_other.update(batch)
    expected = one_after_the_other.network.state_dict()
    for name, weights in together.network.state_dict().items():
        assert torch.equal(weights, expected[name]), name


def test_an_error_of_either_network_ends_the_update_and_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agents.impact.usable_cores", lambda: 2 * torch.get_num_threads())
    running: list[bool] = []

    def fail(*_: object) -> None:
        raise ArithmeticError("broken")

    def run_long(*_: object) -> None:
        running.append(True)
        time.sleep(0.05)
        running.pop()

    for failing in ("network", "target"):
        learner = impact_learner()
        assert learner._target is not None
        networks = {"network": learner.network, "target": learner._target.network}
        for name, network in networks.items():
            network.register_forward_pre_hook(fail if name == failing else run_long)
        with pytest.raises(ArithmeticError, match="broken"):
            learner.update(make_batch([True] * 4))
        assert not running
