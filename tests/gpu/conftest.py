"""Skips the tests where there is no NVIDIA GPU, and sets torch up for one as a run does."""

from collections.abc import Iterator

import pytest
import torch

from machine.device import prepare_torch


@pytest.fixture(autouse=True)
def _gpu() -> Iterator[None]:
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    prepare_torch(torch.device("cuda", 0), repeatable=False)
    yield
    torch.cuda.empty_cache()
