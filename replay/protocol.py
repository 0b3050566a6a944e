"""What every replay can do, whatever its way of choosing."""

from typing import Any, Protocol

from replay.trajectory import Rows


class Replay(Protocol):
    """Keeps unrolls and gives its share of each batch.

    A queue is *fresh*: what it gives has never been learned from, and it takes new unrolls only while it has room.
    All others are *replayed*: they always have room, and forget the oldest.
    """

    @property
    def name(self) -> str: ...

    @property
    def is_fresh(self) -> bool: ...

    @property
    def share(self) -> int:
        """How many unrolls it gives to a batch."""

    @property
    def capacity(self) -> int: ...

    def __len__(self) -> int: ...

    def missing(self) -> int:
        """How many more unrolls it needs before it can give its share."""

    def add(self, row: Rows) -> None:
        """Keep a copy of `row [nbytes]`."""

    def draw(self, out: Rows) -> None:
        """Write its share to `out [share, nbytes]`, no unroll twice."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
