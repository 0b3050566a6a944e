"""A machine without a GPU, and one with; the second runs where there is one."""

import pytest
import torch

from machine.gpu_gauge import GpuGauge


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_without_a_card_of_nvidias_there_is_nothing_to_say(device: str) -> None:
    gauge = GpuGauge(torch.device(device))
    assert gauge.utilization() is None
    assert gauge.memory_mb() is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_card_says_how_busy_it_is() -> None:
    held = torch.zeros(10_000_000, device="cuda")
    gauge = GpuGauge(torch.device("cuda"))
    utilization, memory = gauge.utilization(), gauge.memory_mb()
    assert utilization is None or 0 <= utilization <= 100
    assert memory is not None and memory >= held.nbytes / 1e6
