"""What a run settles before it begins."""

from collections.abc import Iterator

import pytest
import torch

from agents import device as devices
from option_flags import Config
from workers import preparation
from workers.preparation import prepare_machine


@pytest.fixture
def torch_as_it_was() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("torch_as_it_was")
@pytest.mark.parametrize(("asked", "workers"), [("auto", torch.float32), ("bfloat16", torch.bfloat16)])
def test_workers_compute_as_suits_the_cpu_whatever_suits_the_gpu(
    monkeypatch: pytest.MonkeyPatch, asked: str, workers: torch.dtype
) -> None:
    monkeypatch.setattr(devices, "has_fast_bfloat16", lambda device: device.type == "cuda")
    monkeypatch.setattr(preparation, "choose_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    machine = prepare_machine(Config().replace_flags(precision=asked))
    assert (machine.precision, machine.worker_precision) == (torch.bfloat16, workers)
