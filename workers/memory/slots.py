"""The shared memory through which workers deliver their unrolls."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workers.memory.shared_block import SharedBlock


class Slots:
    """Shared rows `[worker, slot, environment, nbytes]`.

    A slot holds one unroll of each of a worker's environments, over the same T steps. It belongs to the worker until it
    is filled, then to the learner until all of its unrolls are taken.
    """

    def __init__(self, workers: int, slots: int, environments: int, nbytes: int) -> None:
        self._shape = (workers, slots, environments, nbytes)
        self._block = SharedBlock(workers * slots * environments * nbytes)
        self.rows: NDArray[np.uint8] = self._block.bytes.reshape(self._shape)

    def close(self) -> None:
        self._block.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"shape": self._shape, "block": self._block}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._shape, self._block = state["shape"], state["block"]
        self.rows = self._block.bytes.reshape(self._shape)
