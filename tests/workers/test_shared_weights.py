"""Weights that one process publishes while another one copies them."""

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from processes.fork_server import start_forked
from workers.shared_array import SharedArray
from workers.shared_weights import NOT_PUBLISHED, SharedWeights

pytestmark = pytest.mark.slow

WEIGHTS = 500_000
COPIES = 100


@dataclass(frozen=True)
class Publishes:
    weights: SharedWeights
    enough: SharedArray

    def run(self, connection: Connection) -> None:
        torch.set_num_threads(1)
        version = 0
        while not self.enough.array.any():
            self.weights.publish(version, torch.full((WEIGHTS,), float(version)))
            version += 1


def test_no_copy_mixes_two_versions() -> None:
    weights, enough = SharedWeights(WEIGHTS), SharedArray((1,))
    copy = torch.zeros(WEIGHTS)
    assert weights.copy_newer(NOT_PUBLISHED, copy) == NOT_PUBLISHED
    writer = start_forked(Publishes(weights, enough), "writer")
    version, copies = NOT_PUBLISHED, 0
    while not writer.has_ended:
        newest = weights.copy_newer(version, copy)
        if newest == version:
            time.sleep(0.01 if version == NOT_PUBLISHED else 0)  # it starts slowly
            continue
        assert newest > version
        assert (copy == newest).all()
        version, copies = newest, copies + 1
        enough.array[:] = copies >= COPIES
    assert writer.end()[0] == 0
    version = weights.copy_newer(version, copy)
    assert (copy == version).all()
    assert weights.copy_newer(version, copy) == version, "there is nothing newer"


def test_the_newest_weights_can_be_read_while_others_are_written_however_the_versions_jump() -> None:
    weights, copy = SharedWeights(4), torch.zeros(4)
    for version in (1, 3, 8, 10):
        weights.begin().fill_(float(version))
        if version > 1:
            before = int(copy[0])
            assert weights.copy_newer(NOT_PUBLISHED, copy) == before and (copy == before).all()
        weights.complete(version)
        assert weights.copy_newer(NOT_PUBLISHED, copy) == version and (copy == version).all()


class OvertakenCopy:
    """The destination of a copy; while the first copy is made, the writer publishes twice and starts to write again."""

    def __init__(self, weights: SharedWeights) -> None:
        self.weights = weights
        self.copies: list[list[float]] = []

    def numpy(self) -> "OvertakenCopy":
        return self

    def __setitem__(self, key: slice, values: NDArray[np.float32]) -> None:
        if not self.copies:
            self.weights.publish(1, torch.full((4,), 1.0))
            self.weights.publish(2, torch.full((4,), 2.0))
            self.weights.begin()[:2] = 3.0
        self.copies.append(values.tolist())


def test_a_reader_that_the_writer_overtakes_copies_again() -> None:
    """The only case in which a copy mixes two versions: three publications start while it is made."""
    weights = SharedWeights(4)
    weights.publish(0, torch.zeros(4))
    copy = OvertakenCopy(weights)
    assert weights.copy_newer(NOT_PUBLISHED, cast(torch.Tensor, copy)) == 2
    assert copy.copies == [[3.0, 3.0, 0.0, 0.0], [2.0] * 4]
    weights.complete(3)
